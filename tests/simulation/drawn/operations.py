"""What may happen in a random world, and how often: a run's operations are drawn from its seed."""

import random
from dataclasses import dataclass, replace

from tests.simulation.drawn.setting import APIS, NODES, draws_destinations


@dataclass(frozen=True)
class Operation:
    """One thing that happens after `after` seconds. Its details follow from `dice` alone, so that they stay the same
    when other operations are left out.
    """

    after: float
    name: str
    node: str
    api: str
    amount: float
    dice: int


CLIENTS = {
    "create": 20,
    "create_under_key": 12,
    "create_late": 2,
    "cancel": 10,
    "cancel_at_its_due": 4,
    "cancel_many": 3,
    "redeliver": 8,
    "reschedule": 6,
    "update": 5,
    "run": 3,
    "put": 6,
    "look": 3,
    "reconcile": 4,
    "stop_reconciliation": 1,
    "show_balance": 2,
    "change_cron": 3,
}
ADMINISTRATORS = {
    "suspend": 2,
    "resume": 3,
    "quota": 3,
    "settings": 2,
    "drain": 1,
    "undrain": 2,
}
NODES_FAIL = {
    "kill": 4,
    "start": 6,
    "stop": 2,
    "pause": 3,
    "resume_node": 5,
    "cut_off": 2,
    "heal": 4,
    "flaky": 4,
    "stale": 2,
    "crash_at_a_write": 3,
    "step": 1,
    "step_for_long": 1,
    "step_together": 1,
    "set_clocks_right": 1,
    "outage": 1,
}
APIS_FAIL = {
    "kill_api": 2,
    "start_api": 5,
    "pause_api": 2,
    "resume_api": 4,
    "flaky_api": 5,
    "lose_announcements": 3,
    "crash_api_at_a_write": 3,
    "step_api": 1,
    "boot_api_wrong": 2,
}
RECEIVERS_FAIL = {
    "slow_receiver": 2,
    "failing_receiver": 3,
    "dead_host": 3,
}
HOSTS_FAIL = {
    "step_host": 3,
    "step_server": 1,
}
"""Drawn after all others, so that the rest of a run is the same without them."""
DESTINATIONS_CHANGE = {
    "put_destination": 3,
    "pause_destination": 4,
    "resume_destination": 3,
    "delete_destination": 1,
}
"""They take the places of some others, in runs that have destinations."""
REPLACED = 8
OF_HOSTS = 0.25
"""The share of runs that have one of them."""
KEYS_WAIT = ("create_of_keys", "kill_all", "heads_fail", "kill", "start", "set_receivers_right")
"""What leaves rows of ordering keys waiting in past minutes for heads that are retried."""
OUTAGE_SECONDS = 260.0
OF_KEYS = 0.2
"""The share of runs that have all of `KEYS_WAIT`, one after the other."""
GROUPS = (CLIENTS, ADMINISTRATORS, NODES_FAIL, APIS_FAIL, RECEIVERS_FAIL)


def draw(seed: int, count: int) -> list[Operation]:
    """Draw the operations. Some runs have more or none of one kind; in a third neither nodes nor receivers fail, so
    that nothing excuses lateness.
    """
    rng = random.Random(seed)
    weights: dict[str, float] = {}
    quiet = rng.random() < 1 / 3
    for group in GROUPS:
        often = 1.0 if group is CLIENTS else rng.choice((0.0, 0.5, 1.0, 1.0, 3.0))
        if quiet and group in (NODES_FAIL, RECEIVERS_FAIL):
            often = 0.0
        weights.update({name: often * weight for name, weight in group.items()})
    names = rng.choices(list(weights), weights=list(weights.values()), k=count)
    drawn = [_operation(name, rng) for name in names]
    if draws_destinations(seed):
        changes = random.Random(f"changes of destinations {seed}")
        names = changes.choices(list(DESTINATIONS_CHANGE), weights=list(DESTINATIONS_CHANGE.values()), k=REPLACED)
        for place, name in zip(sorted(changes.sample(range(count), k=min(REPLACED, count))), names, strict=False):
            drawn[place] = _operation(name, changes)
    hosts = random.Random(f"hosts {seed}")
    if not quiet and hosts.random() < OF_HOSTS:
        name = hosts.choices(list(HOSTS_FAIL), weights=list(HOSTS_FAIL.values()))[0]
        drawn.insert(hosts.randrange(count + 1), _operation(name, hosts))
    keys = random.Random(f"keys {seed}")
    if not quiet and keys.random() < OF_KEYS:
        place = keys.randrange(count + 1)
        drawn[place:place] = [
            replace(one, after=OUTAGE_SECONDS) if one.name == "heads_fail" else one
            for one in [_operation(name, keys) for name in KEYS_WAIT]
        ]
    return drawn


def _operation(name: str, rng: random.Random) -> Operation:
    return Operation(
        after=rng.choice((0.0, 0.3, 1.5, 6.0, 20.0)) * rng.random(),
        name=name,
        node=rng.choice(NODES),
        api=rng.choice(APIS),
        amount=rng.random(),
        dice=rng.getrandbits(32),
    )
