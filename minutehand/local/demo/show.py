"""The visible part of the demo once the cluster runs: a client, a receiver, schedules, and their callbacks."""

import asyncio
import json
import shlex
import shutil
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from minutehand.client import AsyncMinutehand, Callback, PreconditionFailed, Retry
from minutehand.errors import LocalError
from minutehand.local.demo.files import CLIENT_ID, DemoDirectory, DemoKeys, DemoPlan, DemoProcesses, DemoState
from minutehand.local.demo.kafka import CALLS, DESTINATION, TARGET, TOPIC, DemoKafka
from minutehand.local.demo.receiver import OUT_OF_ORDER, Arrival, DemoReceiver
from minutehand.profiles import Profile, write_profile

PROFILE = "demo"
POLLER_QUOTA = 4
SCHEDULES = 5
AHEAD_SECONDS = 3
PATIENCE_SECONDS = 45.0
FROM_KAFKA = "from Kafka"
TO_KAFKA = "to Kafka"
FAILING = "out-of-order"
"""A destination whose calls fail."""
KEEP_FOR_CURL = timedelta(minutes=10)
SHOWN_BODY = 300
_POLL_SECONDS = 0.5

Say = Callable[[str], None]
Runs = Callable[[], bool]


class DemoShow:
    """Works against a running API. `staying`: the first callbacks have come, and it only watches."""

    def __init__(
        self,
        directory: DemoDirectory,
        plan: DemoPlan,
        pids: DemoProcesses,
        *,
        once: bool,
        say: Say,
        kafka: DemoKafka | None = None,
    ) -> None:
        self._directory = directory
        self._plan = plan
        self._pids = pids
        self._once = once
        self._say = say
        self._kafka = kafka
        self._from_kafka = asyncio.Event()
        self.staying = False

    async def run(self, watched: Mapping[str, Runs]) -> None:
        """Run until interrupted, or with `once` until the first callbacks came. `watched`: by process name, whether it
        runs.

        Raises LocalError when callbacks don't come in time, or Cassandra ends.
        """
        plan = self._plan
        async with AsyncMinutehand(plan.api_url, plan.admin_key) as admin:
            keys = await register(admin, admin_key=plan.admin_key, known=self._directory.last_keys())
        self._directory.write_keys(keys)
        receiver = DemoReceiver(port=plan.receiver_port, secret=keys.signing_secret, on_arrival=self._tell)
        await receiver.start()
        running = ExitStack()
        try:
            state = DemoState(
                api_url=plan.api_url,
                admin_key=plan.admin_key,
                client_id=CLIENT_ID,
                client_key=keys.client_key,
                signing_secret=keys.signing_secret,
                receiver_url=plan.receiver_url,
                pids=self._pids,
            )
            self._directory.write_state(state)
            self._keep_profile(state)
            async with AsyncMinutehand(plan.api_url, keys.client_key) as api:
                await self._fire(api, receiver)
                if self._kafka is not None:
                    await self._fire_from(self._kafka, keys.client_key, running)
                    await self._fire_to(self._kafka, api)
                    watched = {**watched, "ingest of Kafka": self._kafka.ingest_runs}
                if not self._once:
                    await self._fail(api)
                    await self._invite(api, state)
            if not self._once:
                await self._stay(watched)
        finally:
            await asyncio.to_thread(running.close)
            await receiver.stop()

    def _keep_profile(self, state: DemoState) -> None:
        try:
            write_profile(PROFILE, Profile(url=state.api_url, key=state.admin_key))
        except (OSError, LocalError) as error:
            self._say(f"The profile {PROFILE} is not kept: {error}")

    async def _fire(self, api: AsyncMinutehand, receiver: DemoReceiver) -> None:
        """Create schedules a few seconds ahead and wait for their callbacks. Raises LocalError when they don't come."""
        now = datetime.now(UTC).replace(microsecond=0)
        created = []
        for number in range(1, SCHEDULES + 1):
            callback = Callback(url=self._plan.receiver_url, json={"order": number})
            due = now + timedelta(seconds=AHEAD_SECONDS + number)
            created.append(await api.client(CLIENT_ID).schedules.create(callback, due=due, label=f"order-{number}"))
        first, last = created[0].due, created[-1].due
        self._say(f"{SCHEDULES} schedules are created, due from {_clock(first)} to {_clock(last)}. Their callbacks:")
        ids = {schedule.schedule_id for schedule in created}
        missing = await receiver.await_verified(ids, seconds=PATIENCE_SECONDS)
        if missing:
            raise LocalError(
                f"{len(missing)} of {SCHEDULES} callbacks did not come within {PATIENCE_SECONDS:.0f} s.",
                f"The logs are in {self._directory.log_file('api').parent}.",
            )
        self._say(f"All {SCHEDULES} came, and their signatures are right.")

    async def _fire_from(self, kafka: DemoKafka, key: str, running: ExitStack) -> None:
        """Put a record into the topic and wait for its callback. Raises LocalError when it does not come."""
        await asyncio.to_thread(kafka.start_ingest, running, api_url=self._plan.api_url, client_id=CLIENT_ID, key=key)
        self._say(f"A record is put into the topic {TOPIC}, due in {AHEAD_SECONDS} s. Its callback:")
        await asyncio.to_thread(kafka.send, self._record(FROM_KAFKA, AHEAD_SECONDS))
        try:
            await asyncio.wait_for(self._from_kafka.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            raise LocalError(
                f"The callback of the record did not come within {PATIENCE_SECONDS:.0f} s.",
                f"The logs are in {self._directory.log_file('api').parent}.",
            ) from None

    async def _fire_to(self, kafka: DemoKafka, api: AsyncMinutehand) -> None:
        """Let a call go to a topic, and read it there. Raises LocalError when it does not come."""
        client = api.client(CLIENT_ID)
        await client.destinations.put(DESTINATION, {"kind": "kafka", "target": TARGET})
        callback = Callback(destination=DESTINATION, json={"order": TO_KAFKA})
        made = await client.schedules.create(callback, delay_seconds=AHEAD_SECONDS)
        self._say(f"A schedule of the destination {DESTINATION} is created: the topic {CALLS}. Its call, read there:")
        found = await asyncio.to_thread(kafka.await_call, str(made.schedule_id), seconds=PATIENCE_SECONDS)
        if found is None:
            raise LocalError(
                f"No record of the call came within {PATIENCE_SECONDS:.0f} s.",
                f"The logs are in {self._directory.log_file('api').parent}.",
            )
        at = "" if found.timestamp is None else _clock(found.timestamp, "milliseconds")
        self._say(f"  {at}  partition {found.partition}, offset {found.offset}  {found.value}")

    def _record(self, order: str | int, delay_seconds: int) -> dict[str, Any]:
        callback = {"url": self._plan.receiver_url, "json": {"order": order}}
        return {"delay_seconds": delay_seconds, "callback": callback}

    def _kafka_lines(self) -> list[str]:
        if self._kafka is None:
            return []
        shown = self._kafka.shown_command(command(), self._record(18, 5))
        return [
            f"Or by a record in Kafka, from which `{command()} ingest kafka` makes a schedule:",
            "",
            f"  {shown}",
            "",
            "The other way, with the variables above: a destination that is a topic, a schedule of it that is due in",
            "five seconds, and the last record of the topic:",
            "",
            *(f"  {line}" for line in self._kafka.shown_call(command())),
            "",
        ]

    async def _fail(self, api: AsyncMinutehand) -> None:
        """Let one call fail, so that the console has one to look at."""
        client = api.client(CLIENT_ID)
        await client.destinations.put(FAILING, {"url": self._plan.receiver_url + OUT_OF_ORDER})
        await client.schedules.create(
            Callback(destination=FAILING, json={"order": 99}), delay_seconds=0, retry=Retry(max_attempts=1)
        )

    async def _invite(self, api: AsyncMinutehand, state: DemoState) -> None:
        """Print the console's address with what to log in by, and three requests that work when pasted."""
        callback = Callback(url=self._plan.receiver_url, json={"order": 0})
        later = await api.client(CLIENT_ID).schedules.create(callback, due=datetime.now(UTC) + KEEP_FOR_CURL)
        schedules = f"{self._plan.api_url}/v1/clients/{CLIENT_ID}/schedules"
        wanted = {"delay_seconds": 10, "callback": {"url": self._plan.receiver_url, "json": {"order": 17}}}
        bearer = f"-H 'Authorization: Bearer {state.client_key}'"
        self._say(
            "\n".join(
                [
                    "",
                    "For another shell, so that curl, the examples and `minutehand` reach this demo:",
                    "",
                    *(f"  {line}" for line in shell_lines(state, settings=self._directory.settings)),
                    "",
                    f"In a browser: {self._plan.api_url}/console",
                    f"  as the client, log in with the key {state.client_key}",
                    f"  as the administrator, with the key {state.admin_key}",
                    "  The client's first page lists a call that failed: find out why, and call it again.",
                    "",
                    "Try (create one that is due in ten seconds; look at one that is due in ten minutes; cancel it):",
                    "",
                    f"  curl {schedules} {bearer} -H 'Content-Type: application/json' -d '{json.dumps(wanted)}'",
                    f"  curl {schedules}/{later.schedule_id} {bearer}",
                    f"  curl -X DELETE {schedules}/{later.schedule_id} {bearer}",
                    "",
                    "Or by the command, which needs no variables with the profile that is kept of this demo:",
                    "",
                    f"  {command()} --profile {PROFILE} schedules create {CLIENT_ID} {self._plan.receiver_url} "
                    "--delay-seconds 10",
                    f"  {command()} --profile {PROFILE} schedules list {CLIENT_ID}",
                    "",
                    *bigben_lines(self._plan),
                    *goscheduler_lines(self._plan),
                    *self._kafka_lines(),
                    "Callbacks are shown here as they come; those signed by another secret than the one above are",
                    "refused. Keys, secret and the ports of API and receiver stay the same at the next start. Ctrl-C",
                    "stops everything.",
                    f"The next demo goes on with what is stored in {self._directory.path};",
                    "`make demo ARGS=--fresh` deletes it first.",
                    "",
                ]
            )
        )

    async def _stay(self, watched: Mapping[str, Runs]) -> None:
        """Watch until interrupted. Reports processes that end; without Cassandra there is nothing left to show."""
        watched = dict(watched)
        self.staying = True
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            for name in [name for name, runs in watched.items() if not runs()]:
                if name == "Cassandra":
                    raise LocalError("Cassandra ended.", f"Its log is in {self._directory.cassandra / 'logs'}.")
                del watched[name]
                self._say(f"The {name} ended; the rest goes on.")

    def _tell(self, arrival: Arrival) -> None:
        at = _clock(datetime.fromtimestamp(arrival.at, UTC), "milliseconds")
        callback, lateness = arrival.callback, arrival.lateness_seconds
        if callback is None or lateness is None:
            self._say(f"  {at}  refused: {arrival.refusal or 'it does not say when it was due'}")
            return
        if FROM_KAFKA.encode() in arrival.body:
            self._from_kafka.set()
        again = " again (it may have come before)" if callback.redelivery else ""
        attempt = f" attempt {callback.attempt}" if (callback.attempt or 1) > 1 else ""
        body = arrival.body.decode(errors="replace")[:SHOWN_BODY]
        self._say(f"  {at}  {_lateness(lateness)}  signature right  {body}{attempt}{again}")
        if callback.ack_url is not None:
            self._say(f"      answered 202; it awaits a word at {callback.ack_url}")
        if arrival.status >= 500:
            self._say(f"      answered {arrival.status}, as every call to the destination {FAILING}")


def shell_lines(state: DemoState, *, settings: Path) -> list[str]:
    """The variables for the requests of the README, the examples and every command."""
    variables = {
        "API": state.api_url,
        "CLIENT": state.client_id,
        "KEY": state.client_key,
        "RECEIVER": state.receiver_url,
        "ADMIN_KEY": state.admin_key,
        "MINUTEHAND_URL": state.api_url,
        "MINUTEHAND_KEY": state.admin_key,
        "SIGNING_SECRET": state.signing_secret,
        "MINUTEHAND_CONFIG": str(settings),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    if command() != "minutehand":
        lines.append(f"export PATH={shlex.quote(sysconfig.get_path('scripts'))}:$PATH")
    return lines


def bigben_lines(plan: DemoPlan) -> list[str]:
    """How programs that were written for BigBen find the demo, if it serves them."""
    if not plan.bigben:
        return []
    return [
        f"Or by a program written for BigBen, which finds its API below {plan.api_url}/bigben, such as:",
        "",
        f"  python3 examples/bigben_program.py {plan.api_url}/bigben",
        "",
    ]


def goscheduler_lines(plan: DemoPlan) -> list[str]:
    """How programs that were written for GoScheduler find the demo, if it serves them."""
    if not plan.goscheduler:
        return []
    return [
        f"Or by a program written for GoScheduler, which finds its API below {plan.api_url}/goscheduler:",
        "",
        f"  GOSCHEDULER={plan.api_url} sh examples/goscheduler.sh",
        "",
    ]


def command() -> str:
    """How a shell like this process's calls this installation's command: by its name, or by its path."""
    programs = Path(sysconfig.get_path("scripts"))
    found = shutil.which("minutehand")
    return (
        "minutehand" if found is not None and Path(found).parent == programs else shlex.quote(f"{programs}/minutehand")
    )


async def register(admin: AsyncMinutehand, *, admin_key: str, known: DemoKeys | None) -> DemoKeys:
    """The demo's client, with the key and the secret of the run before as far as the API has them still; other keys and
    secrets are removed. The key is of scope manage: one of less, which an earlier version made, is replaced."""
    client = admin.client(CLIENT_ID)
    first = None
    # One that is there stays as its user has set it.
    with suppress(PreconditionFailed):
        first = (await admin.clients.register(CLIENT_ID, poller_quota=POLLER_QUOTA, absent=True)).signing_secret
    keys = [one for one in await client.keys.list() if one.revoked_at is None]
    secrets = list(await client.signing_secrets.list())
    managing = {one.key_id for one in keys if one.scope == "manage"}
    if known is not None and known.client_key_id in managing:
        key_id, key = known.client_key_id, known.client_key
    else:
        made = await client.keys.create(scope="manage", name="the demo's")
        key_id, key = made.key_id, made.key
    if known is not None and known.secret_id in {one.secret_id for one in secrets}:
        secret_id, secret = known.secret_id, known.signing_secret
    else:
        new = first or await client.signing_secrets.create()
        secret_id, secret = new.secret_id, new.secret
    for old in keys:
        if old.key_id != key_id:
            await client.keys.revoke(old.key_id)
    for older in secrets:
        if older.secret_id != secret_id:
            await client.signing_secrets.delete(older.secret_id)
    return DemoKeys(
        admin_key=admin_key, client_key_id=key_id, client_key=key, secret_id=secret_id, signing_secret=secret
    )


def _lateness(seconds: float) -> str:
    """In a column. What is redelivered, or was overdue, is late by more than milliseconds tell well."""
    return f"{seconds * 1000:+7.1f} ms" if abs(seconds) < 10 else f"{seconds:+7.1f} s "


def _clock(instant: datetime, precision: str = "seconds") -> str:
    return instant.astimezone(UTC).time().isoformat(timespec=precision)
