"""What is wrong with a cluster and what to do about it, the most urgent first. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from membership.settings import MembershipSettings
from scheduler_service.console.rendering import duration, rate
from scheduler_service.domain.backlogs import HeldBy
from scheduler_service.runtime.health import CLOCK_UNTRUSTED

STORAGE_ADVICE: Final = (
    "Cassandra does not answer this API. Nodes that still reach it go on making calls. Look whether Cassandra runs "
    "(nodetool status), whether this machine reaches it, and at this API's log; another API may answer meanwhile."
)
BEATLESS_SECONDS: Final = 4.0
"""A node whose last beat is as old has missed three."""
_HELD: Final[Mapping[HeldBy, str]] = {
    HeldBy.NO_OWNER: "pollers have no owner: start nodes",
    HeldBy.OVERDUE_RATE: "an overdue rate holds them back on purpose: it can be changed below, or on the client's page",
    HeldBy.QUOTA: "a minute has more calls than the quota guarantees: raise the quota, or have the calls spread",
    HeldBy.CLIENT_SUSPENDED: "the client is suspended: resume it on its page",
    HeldBy.CLIENT_PAUSED: "the client is paused: unpause it on its page",
    HeldBy.DESTINATION_PAUSED: "a destination is paused: resume it on the client's pages",
    HeldBy.RECEIVER_OPEN: "a receiver only fails: see the client's dead letters and destinations",
    HeldBy.RECOVERY: "nodes are working through them: nothing has to be done",
}


class Sentence(NamedTuple):
    """How it goes, in one sentence. `tone`: good, warn or bad. `advice`: what to do; None: nothing."""

    tone: str
    text: str
    advice: str | None = None


def findings_of(
    cluster: Mapping[str, Any],
    calls: Mapping[str, Any],
    backlog: Sequence[Mapping[str, Any]],
    *,
    unready: Sequence[Mapping[str, Any]] = (),
) -> list[Sentence]:
    """`unready`: why the API that answers can't do all of its work. If nothing is wrong, that is said."""
    found = [
        *_no_calls(cluster),
        *_clocks(cluster, unready),
        *_beats(cluster),
        *_pollers(cluster),
        *_capacity(cluster),
        *_overdue(backlog),
        *_silent(calls, known={*_beatless(cluster)}),
    ]
    return found or [_made(calls)._replace(advice=_died(cluster))]


def sentence_of(
    cluster: Mapping[str, Any],
    calls: Mapping[str, Any],
    backlog: Sequence[Mapping[str, Any]],
    *,
    unready: Sequence[Mapping[str, Any]] = (),
) -> Sentence:
    """The most urgent one; where calls are made none the less, it says how many."""
    first, made = findings_of(cluster, calls, backlog, unready=unready)[0], _made(calls)
    if first.tone != "warn":
        return first
    return first._replace(advice=f"{made.text} {first.advice}" if first.advice else made.text)


def _made(calls: Mapping[str, Any]) -> Sentence:
    per_second, late = calls["per_second"], calls["late"][2]["seconds"]
    if not per_second:
        return Sentence("good", "Calls are made; none was due within the last minute.")
    within = "" if late is None else f", 99 % within {duration(late)}"
    return Sentence("good", f"Calls are made: {rate(per_second)} a second{within}.")


def _no_calls(cluster: Mapping[str, Any]) -> Iterator[Sentence]:
    """The API says why, and behind a colon what to do."""
    if why := cluster["not_calling"]:
        reason, _, advice = why.partition(": ")
        yield Sentence("bad", f"No calls are made: {reason}.", f"{advice[:1].upper()}{advice[1:]}." if advice else None)
    elif not any(node["state"] == "live" for node in cluster["nodes"]):
        draining = [node["node_id"] for node in cluster["nodes"] if node["state"] == "draining"]
        advice = f"Undrain {draining[0]}, or start one" if draining else "Start one"
        yield Sentence("bad", "No node is live, so no call would be made.", f"{advice}: minutehand node.")


def _clocks(cluster: Mapping[str, Any], unready: Sequence[Mapping[str, Any]]) -> Iterator[Sentence]:
    limit = MembershipSettings().clock_limit_ms
    for node in cluster["nodes"]:
        offset = node["clock_offset_ms"]
        if node["state"] in ("live", "draining") and offset is not None and abs(offset) >= limit:
            where = f"{duration(abs(offset) / 1000)} {'ahead of' if offset > 0 else 'behind'} the others"
            yield Sentence(
                "bad",
                f"The clock of {node['node_id']} is {where}: it makes no calls.",
                "Set that machine's clock right, and look why its time service (chrony, NTP) did not. The node takes "
                "pollers again by itself.",
            )
    for one in unready:
        if one["reason"] == CLOCK_UNTRUSTED:
            yield Sentence(
                "bad",
                f"This API refuses creates: {one['detail'].partition(': creates')[0]}.",
                "Set this machine's clock right, or start a node if none runs; other APIs accept creates meanwhile.",
            )


def _beats(cluster: Mapping[str, Any]) -> Iterator[Sentence]:
    for node_id in _beatless(cluster):
        yield Sentence(
            "warn",
            f"{node_id} does not beat: what it has to call is late.",
            "Other nodes take over within seconds. Look whether it runs and reaches Cassandra; restart it if not.",
        )


def _beatless(cluster: Mapping[str, Any]) -> Iterator[str]:
    """Nodes that claim to be there."""
    for node in cluster["nodes"]:
        if node["state"] in ("live", "draining") and (node["beat_age_seconds"] or 0.0) >= BEATLESS_SECONDS:
            yield node["node_id"]


def _died(cluster: Mapping[str, Any]) -> str | None:
    """What to know although nothing is wrong any more."""
    died = [node["node_id"] for node in cluster["nodes"] if node["state"] == "dead"]
    return f"{', '.join(died)} died, and other nodes have taken over. Restart what should run." if died else None


def _pollers(cluster: Mapping[str, Any]) -> Iterator[Sentence]:
    pollers = cluster["pollers"]
    if (unowned := pollers["total"] - pollers["owned"]) and not cluster["not_calling"]:
        text = f"{unowned:,} of {pollers['total']:,} pollers have no owner: their calls are late."
        advice = "Nodes take them over within seconds; if they don't, see the nodes' logs, or start more nodes."
        yield Sentence("warn", text, advice)


def _capacity(cluster: Mapping[str, Any]) -> Iterator[Sentence]:
    live = [node["capacity_per_minute"] for node in cluster["nodes"] if node["state"] == "live"]
    guaranteed, capacity = cluster["guaranteed_calls_per_minute"], cluster["capacity_per_minute"]
    if live and capacity < guaranteed:
        more = math.ceil((guaranteed - capacity) / max(sum(live) / len(live), 1))
        text = f"Nodes can call {capacity:,} a minute, and {guaranteed:,} are guaranteed."
        yield Sentence("warn", text, f"Start {more:,} more like these, undrain one, or lower quotas.")


def _overdue(backlog: Sequence[Mapping[str, Any]]) -> Iterator[Sentence]:
    overdue = sum(one["overdue"]["rows"] for one in backlog)
    if not overdue:
        return
    held = {reason for one in backlog if one["overdue"]["rows"] for reason in one["held_by"]}
    advice = next((said for reason, said in _HELD.items() if reason in held), None)
    text = f"{overdue:,} call{' is' if overdue == 1 else 's are'} overdue."
    yield Sentence("warn", text, "Below is whose they are." if advice is None else f"{advice[:1].upper()}{advice[1:]}.")


def _silent(calls: Mapping[str, Any], *, known: Set[str]) -> Iterator[Sentence]:
    """`known`: of whom worse is said."""
    if silent := [node_id for node_id in calls["nodes_not_answering"] if node_id not in known]:
        verb, object_ = ("does", "its") if len(silent) == 1 else ("do", "their")
        yield Sentence(
            "warn",
            f"{', '.join(silent)} {verb} not answer this API: {object_} calls are missing in the figures.",
            "Look whether the node is running, and whether this machine reaches the address of its beats.",
        )
