"""Runs a client's corner without an administrator, with one key of scope `manage`; exits with 1 at the first surprise.

    make demo                          # prints lines that begin with `export`: paste them where you run this
    python examples/own_corner.py      # or: --url http://... --client shop --key ...

It is a receiver on this machine, and takes back what it made: its signing secrets, keys, destinations and schedules.
"""

import argparse
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from minutehand.client import (
    Callback,
    CallbackUpdate,
    ClientScope,
    CloudEvents,
    Forbidden,
    LocalTime,
    Minutehand,
    MinutehandClientError,
    NewDestination,
    NewSchedule,
    Schedule,
)
from minutehand.webhooks import VerificationError, VerifiedCallback, verify

PATIENCE_SECONDS = 60.0


class Surprise(Exception):
    """Something was not as expected."""


def expect(right: bool, sentence: str) -> None:
    if not right:
        raise Surprise(sentence)


def wait_until(reached: Callable[[], bool], sentence: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        expect(time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:.0f} s: {sentence}")
        time.sleep(0.2)


class Receiver(ThreadingHTTPServer):
    """Keeps the calls that its secrets verify, in order of arrival, with their bodies; refuses all others."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self.url = f"http://{host}:{self.server_address[1]}"
        self.secrets: list[str] = []
        self.calls: list[tuple[VerifiedCallback, bytes]] = []
        self.targets: dict[str, tuple[str, str | None]] = {}
        """The path of each call, and its CloudEvents type, by the schedule's id."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def of(self, *schedules: Schedule) -> list[tuple[VerifiedCallback, bytes]]:
        """The calls of these schedules."""
        ids = {schedule.schedule_id for schedule in schedules}
        return [(callback, body) for callback, body in self.calls if callback.webhook_id in ids]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            callback = verify(body, self.headers, self.server.secrets)
            self.server.targets[callback.webhook_id] = (self.path, self.headers["ce-type"])
            self.server.calls.append((callback, body))
        except VerificationError:
            self.send_response(401)
        else:
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the tour prints what matters."""


class Corner:
    """One client's calls, keys and settings, by its own key."""

    def __init__(self, own: ClientScope, receiver: Receiver, url: str) -> None:
        self.own = own
        self.receiver = receiver
        self.url = url
        self.run = uuid.uuid4().hex[:12]

    def callback(self, **content: object) -> Callback:
        return Callback(url=f"{self.receiver.url}/hook", json=content)

    def await_call(self, schedule: Schedule) -> tuple[VerifiedCallback, bytes]:
        wait_until(lambda: bool(self.receiver.of(schedule)), f"the call of {schedule.schedule_id}")
        wait_until(
            lambda: self.own.schedules.get(schedule.schedule_id).state == "delivered",
            f"{schedule.schedule_id} delivered",
        )
        return self.receiver.of(schedule)[0]

    def sign_for_this_receiver(self) -> Callable[[], None]:
        """A secret and a key pair of the tour's own, beside those the client has; returns what deletes them."""
        secret = self.own.signing_secrets.create()
        pair = self.own.signing_secrets.create(scheme="v1a")
        self.receiver.secrets.append(secret.secret)
        made = (secret.secret_id, pair.secret_id)
        wait_until(
            lambda: len(self.own.signing_secrets.public_keys()) > 0, "the pair's public key, at its open address"
        )
        print("calls are signed by a new secret and a new key pair, whose public key everybody may read")

        def delete() -> None:
            for one in made:
                self.own.signing_secrets.delete(one)

        return delete

    def own_names(self) -> None:
        """Pushing a key ahead: the call comes once, some time after the last push."""
        schedules, key = self.own.schedules, f"cart-{self.run}"
        latest = datetime.now(UTC) + timedelta(minutes=10)
        pushed = [schedules.put(key, self.callback(push=n), delay_seconds=3 + n / 10, latest=latest) for n in range(5)]
        last = pushed[-1]
        callback, body = self.await_call(last)
        expect(callback.key == key, f"the call carries the key {callback.key}")
        expect(json.loads(body) == {"push": 4}, f"the call of the last push says {body!r}")
        expect(len(self.receiver.of(*pushed)) == 1, "a key that was pushed ahead was called more than once")
        expect(schedules.get_by_key(key).schedule_id == last.schedule_id, "the key names another schedule")
        other = schedules.put(f"other-{self.run}", self.callback(), delay_seconds=600)
        try:
            schedules.put(f"other-{self.run}", self.callback(), delay_seconds=700, absent=True)
        except MinutehandClientError as error:
            print(f"a put that wanted no predecessor was refused: {type(error).__name__}")
        else:
            raise Surprise("a put that wanted no predecessor replaced one")
        expect(
            schedules.cancel_by_key(f"other-{self.run}").schedule_id == other.schedule_id, "the key cancelled another"
        )
        many = schedules.create_batch(
            [NewSchedule(callback=self.callback(), delay_seconds=600, key=f"batch-{n}-{self.run}") for n in range(3)]
        )
        expect([item.status for item in many] == [201] * 3, f"a batch with keys was answered {many}")
        for n in range(3):
            schedules.cancel_by_key(f"batch-{n}-{self.run}")
        print("a key pushed ahead five times was called once, under its name; others were cancelled by theirs")

    def change_what_waits(self) -> None:
        schedules = self.own.schedules
        waiting = schedules.create(self.callback(state="old"), delay_seconds=600, label=self.run)
        changed = schedules.update(waiting.schedule_id, callback=CallbackUpdate(json={"state": "new"}))
        shown = schedules.preview(changed.schedule_id)
        expect(shown.method == "POST", f"the dry run would send {shown.method}")
        expect(not self.receiver.of(waiting, changed), "a dry run was sent")
        ran = schedules.run(changed.schedule_id)
        _, body = self.await_call(ran)
        expect(json.loads(body) == {"state": "new"}, f"the call of an updated schedule says {body!r}")
        expect(len(self.receiver.of(waiting, changed, ran)) == 1, "a schedule that was run was called again")
        print("a waiting schedule was changed, looked at without a call, and called now instead of in ten minutes")

    def destinations(self) -> None:
        own, name = self.own, f"orders-{self.run}"
        own.destinations.put(name, NewDestination(url=f"{self.receiver.url}/old", max_in_flight=4))
        own.destinations.put(
            name,
            NewDestination(
                url=f"{self.receiver.url}/orders", max_in_flight=4, cloudevents=CloudEvents(type="tour", source="/tour")
            ),
        )
        try:
            to = Callback(destination=name, path="/expire?id=17", json={"order": 17})
            made = own.schedules.create(to, delay_seconds=6)
            self.await_call(made)
            target = self.receiver.targets[made.schedule_id]
            expect(target == ("/orders/expire?id=17", "tour"), f"the call came to {target}")
            own.destinations.pause(name)
            held = own.schedules.create(to, delay_seconds=6)
            wait_until(lambda: datetime.now(UTC) > held.due + timedelta(seconds=2), "the due of the one that waits")
            expect(not self.receiver.of(held), "the call of a paused destination was made")
            own.destinations.resume(name)
            self.await_call(held)
            figures = own.destinations.get(name).figures
            expect(figures is not None and figures.calls == 2, f"the destination's figures are {figures}")
        finally:
            own.destinations.delete(name)
        print("a destination was changed, called as a CloudEvent, paused and resumed; it counted its two calls")

    def flow_keys(self) -> None:
        """One customer's calls go one at a time, and another's are not behind them."""
        hook = f"{self.receiver.url}/hook"
        keys = [f"customer-{n % 2}-{self.run}" for n in range(6)]
        made = [
            self.own.schedules.create(Callback(url=hook, json={}, flow_key=key, flow_parallelism=1), delay_seconds=2)
            for key in keys
        ]
        for schedule in made:
            self.await_call(schedule)
        print("calls of two flow keys were made, one of each at a time")

    def find_and_act(self) -> None:
        schedules, label = self.own.schedules, f"found-{self.run}"
        for n in range(3):
            schedules.create(self.callback(n=n), delay_seconds=3_000 + n, label=label)
        window = (datetime.now(UTC), datetime.now(UTC) + timedelta(days=30))
        host = self.receiver.url.removeprefix("http://").partition(":")[0]
        expect(schedules.count(start=window[0], end=window[1], label=label) == 3, "the count of a label is another")
        listed = list(schedules.list(start=window[0], end=window[1], label=label, host=host, state="scheduled"))
        expect(len(listed) == 3, f"{len(listed)} are listed by label, host and state")
        for _ in range(2):
            later = schedules.reschedule_window(start=window[0], end=window[1], shift_seconds=60, label=label)
            expect([one.rescheduled for one in later] == [True] * 3, f"moving by label answered {later}")
        moved = sorted(
            one.due for one in schedules.list(start=window[0], end=window[1], label=label, state="scheduled")
        )
        dues = sorted(one.due + timedelta(minutes=1) for one in listed)
        expect(moved == dues, f"a request that was repeated moved schedules to {moved} instead of {dues}")
        gone = schedules.cancel_window(start=window[0], end=window[1], label=label)
        expect([one.state for one in gone] == ["cancelled"] * 3, f"cancelling by label answered {gone}")
        letters = list(self.own.dead_letters.list(label=label))
        expect(letters == [], f"dead letters of schedules that never failed: {letters}")
        print("three were counted, listed, moved by a minute and cancelled by label in a window of 30 days")

    def run_a_cron_once(self) -> None:
        """The same request twice, as after a lost answer, makes one run."""
        crons, name = self.own.crons, f"nightly-{self.run}"
        crons.put(name, self.callback(run="by hand"), expression="0 3 * * *", timezone="Europe/Berlin")
        try:
            runs = {crons.trigger(name, idempotency_key=f"run-{self.run}").schedule_id for _ in range(2)}
            expect(len(runs) == 1, f"a request that was repeated made the runs {runs}")
            self.await_call(self.own.schedules.get(runs.pop()))
        finally:
            crons.delete(name)
        print("a nightly cron was run once now, by a request that was sent twice")

    def when(self) -> None:
        schedules = self.own.schedules
        past = schedules.create(self.callback(order="late"), due=datetime.now(UTC) - timedelta(seconds=20))
        self.await_call(past)
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT02:30")
        local = schedules.create(
            self.callback(), due=LocalTime(local=tomorrow, timezone="Europe/Berlin", fold="second"), window_seconds=600
        )
        expect(local.nominal_due is None or local.due >= local.nominal_due, "a window moved a due back")
        schedules.cancel(local.schedule_id)
        print(f"one due 20 s ago was called at once; one at 02:30 in Berlin is {local.due:%Y-%m-%dT%H:%M:%SZ}, spread")

    def every_receiver_can_check(self) -> None:
        made = self.own.schedules.create(Callback(url=f"{self.receiver.url}/hook"), delay_seconds=1)
        _, body = self.await_call(made)
        content = json.loads(body)
        expect(content["schedule_id"] == made.schedule_id, f"the body that was not given is {content}")
        print(f"a call without a body carried {', '.join(content)}")

    def self_service(self) -> None:
        own = self.own
        reader = own.keys.create(
            scope="read", name=f"dashboard {self.run}", expires_at=datetime.now(UTC) + timedelta(1)
        )
        with Minutehand(self.url, reader.key) as api:
            looking = api.client(own.client_id)
            try:
                looking.schedules.create(self.callback(), delay_seconds=600)
            except Forbidden:
                print("a key of scope read looks, and creates nothing")
            else:
                raise Surprise("a key of scope read created a schedule")
        own.keys.revoke(reader.key_id)
        before = own.get()
        waiting = own.schedules.create(self.callback(order="held"), delay_seconds=6)
        own.pause()
        try:
            expect(own.get().paused, "the client does not say that it is paused")
            wait_until(lambda: datetime.now(UTC) > waiting.due + timedelta(seconds=2), "the due of the one that waits")
            expect(not self.receiver.of(waiting), "a paused client's call was made")
        finally:
            own.unpause()
        self.await_call(waiting)
        own.change_settings({"timeout_seconds": 7.0})
        expect(own.get().settings["timeout_seconds"] == 7.0, "the time-out is another one")
        own.change_settings({"timeout_seconds": before.settings["timeout_seconds"]})
        done = [entry.action for entry in own.audit_log(start=datetime.now(UTC) - timedelta(minutes=10))]
        print(f"paused, resumed and set its time-out; its audit log has {len(done)} entries of the last ten minutes")

    def go(self) -> None:
        clean_up = self.sign_for_this_receiver()
        try:
            self.own_names()
            self.change_what_waits()
            self.destinations()
            self.flow_keys()
            self.when()
            self.find_and_act()
            self.run_a_cron_once()
            self.every_receiver_can_check()
            self.self_service()
        finally:
            clean_up()


def main() -> int:
    parser = argparse.ArgumentParser(description="What a client does without an administrator, once.")
    parser.add_argument("--url", default=os.environ.get("API"), help="address of the API (environment: API)")
    parser.add_argument("--client", default=os.environ.get("CLIENT"), help="the client (environment: CLIENT)")
    parser.add_argument("--key", default=os.environ.get("KEY"), help="its key of scope manage (environment: KEY)")
    parser.add_argument("--receiver-host", default="127.0.0.1", help="address of this machine that nodes may call")
    given = parser.parse_args()
    if not given.url or not given.client or not given.key:
        parser.error("say where the API is, which client and its key: --url, --client, --key, or API, CLIENT and KEY")
    receiver = Receiver(given.receiver_host)
    try:
        with Minutehand(given.url, given.key) as api:
            Corner(api.client(given.client), receiver, given.url).go()
    except (Surprise, MinutehandClientError, ValueError) as error:
        print(f"not as it should be: {error}", file=sys.stderr)
        return 1
    finally:
        receiver.shutdown()
        receiver.server_close()
    print("what the tour made is taken back: all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
