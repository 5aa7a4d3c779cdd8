"""Uses everything a client can ask for, with nothing but the SDK; exits with 1 at the first surprise.

    make demo                          # prints lines that begin with `export`: paste them where you run this
    python examples/tour.py            # or: --url http://... --admin-key ...

It registers a client, is that client's receiver on this machine, and deletes the client at the end.
"""

import argparse
import os
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from minutehand.client import (
    Callback,
    ClientScope,
    Minutehand,
    MinutehandApiError,
    MinutehandClientError,
    NewSchedule,
    Retry,
    Schedule,
)
from minutehand.webhooks import VerificationError, verify

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
    """Accepts signed callbacks only. Answers 500 at `/broken` until it is `mended`."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self.url = f"http://{host}:{self.server_address[1]}"
        self.secret = ""
        self.mended = False
        self.calls: Counter[str] = Counter()
        self.trial_calls: list[str] = []
        self.refusals: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        receiver = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        status = 204
        try:
            callback = verify(body, self.headers, receiver.secret)
        except VerificationError as error:
            receiver.refusals.append(str(error))
            status = 401
        else:
            if callback.trial:
                receiver.trial_calls.append(callback.webhook_id)
            else:
                receiver.calls[callback.webhook_id] += 1
                if self.path == "/broken" and not receiver.mended:
                    status = 500
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the tour prints what matters."""


class Tour:
    """One client's calls. `said` counts the schedules that the API accepted."""

    def __init__(self, shop: ClientScope, receiver: Receiver) -> None:
        self.shop = shop
        self.receiver = receiver
        self.began = datetime.now(UTC)
        self.end = self.began + timedelta(hours=23)
        self.accepted = 0

    def callback(self, path: str = "/hook", **content: object) -> Callback:
        return Callback(url=self.receiver.url + path, json=content)

    def create(self, callback: Callback, *, delay_seconds: float, label: str = "tour", attempts: int = 5) -> Schedule:
        self.accepted += 1
        retry = Retry(max_attempts=attempts)
        return self.shop.schedules.create(callback, delay_seconds=delay_seconds, label=label, retry=retry)

    def await_calls(self, schedule_id: str, calls: int, state: str) -> None:
        get, seen = self.shop.schedules.get, self.receiver.calls
        wait_until(lambda: seen[schedule_id] >= calls, f"call {calls} of {schedule_id}")
        wait_until(lambda: get(schedule_id).state == state, f"{schedule_id} {state}")

    def try_receiver(self) -> None:
        exchange = self.shop.trial_call(self.callback(order=0))
        expect(exchange.delivered, f"the trial call was answered {exchange.status} {exchange.error} {exchange.detail}")
        expect(self.receiver.trial_calls == [exchange.schedule_id], "the receiver saw another trial call")
        print(f"a trial call went to {exchange.connected_to} and was answered {exchange.status}")

    def create_some(self) -> list[str]:
        one = self.create(self.callback(order=1), delay_seconds=2)
        good = [NewSchedule(callback=self.callback(order=n), delay_seconds=2, label="tour") for n in range(2, 7)]
        *made, refused = self.shop.schedules.create_batch(
            [*good, NewSchedule(callback=Callback(url="gopher://x"), delay_seconds=2)]
        )
        self.accepted += len(made)
        expect([item.status for item in made] == [201] * len(made), "an item of the batch was refused")
        expect(refused.status == 422, f"a wrong item of the batch was answered {refused.status}")
        ids = [one.schedule_id, *(item.schedule.schedule_id for item in made if item.schedule is not None)]
        listed = {each.schedule_id for each in self.shop.schedules.list(start=self.began, end=self.end, page_size=2)}
        expect(set(ids) <= listed, "the list lacks schedules that were created")
        print(f"{len(ids)} schedules created and listed; a wrong one among them refused by itself")
        return ids

    def cancel_some(self) -> None:
        one = self.create(self.callback(order=10), delay_seconds=1200)
        for _ in range(2):
            expect(self.shop.schedules.cancel(one.schedule_id).state == "cancelled", "a cancel did not cancel")
        many = [self.create(self.callback(order=n), delay_seconds=1200).schedule_id for n in (11, 12)]
        done = self.shop.schedules.cancel_many(many)
        expect([item.cancelled for item in done] == [True, True], f"a bulk cancel by ids said {done}")
        sale = [self.create(self.callback(order=n), delay_seconds=1200, label="sale").schedule_id for n in (13, 14)]
        done = self.shop.schedules.cancel_window(start=self.began, end=self.end, label="sale")
        expect({item.schedule_id for item in done if item.cancelled} == set(sale), f"a bulk cancel said {done}")
        print("cancelled: one (twice, which is harmless), two by their ids, two by window and label")

    def reschedule_one(self) -> str:
        old = self.create(self.callback(order=20), delay_seconds=1200)
        self.accepted += 1
        changed = self.shop.schedules.update(old.schedule_id, label="later")
        expect(changed.schedule_id == old.schedule_id, "an update of the label gave the schedule another id")
        new = self.shop.schedules.reschedule(old.schedule_id, delay_seconds=2)
        expect(new.label == "later", f"the label of what was updated is {new.label}")
        old = self.shop.schedules.get(old.schedule_id)
        expect(old.state == "cancelled", f"a rescheduled one is {old.state}")
        expect((old.rescheduled_to, new.rescheduled_from) == (new.schedule_id, old.schedule_id), "they are not linked")
        print("one updated in place, then rescheduled from twenty minutes ahead to two seconds")
        return new.schedule_id

    def call_again(self, delivered: str) -> None:
        failing = self.create(self.callback("/broken", order=30), delay_seconds=1, attempts=1).schedule_id
        self.await_calls(failing, 1, "failed")
        (attempt,) = self.shop.schedules.attempts(failing)
        expect((attempt.status, attempt.outcome) == (500, "failed"), f"the attempt is told as {attempt}")
        letters = self.shop.dead_letters
        wait_until(lambda: failing in {one.schedule_id for one in letters.list(start=self.began)}, "the dead letter")
        self.receiver.mended = True
        expect(letters.redeliver(start=self.began).redelivered == 1, "the dead letter was not redriven")
        self.await_calls(failing, 2, "delivered")
        self.shop.schedules.redeliver(delivered)
        self.await_calls(delivered, 2, "delivered")
        print("one gave up after an answer of 500, was redriven and delivered; a delivered one was called again")

    def reconcile(self) -> None:
        """Compare what the API says was delivered with what the receiver verified; then redeliver all of it."""
        listed = self.shop.schedules.list(start=self.began, end=self.end, state="delivered")
        delivered = {each.schedule_id for each in listed}
        expect(delivered == set(self.receiver.calls), "delivered and received are not the same schedules")
        print(f"{len(delivered)} delivered by the API's account are those that the receiver verified")

        calls, end = Counter(self.receiver.calls), datetime.now(UTC)
        work = self.shop.reconciliations
        asked = work.create("redeliver", start=self.began, end=end, states=["delivered"])
        done = work.wait(asked.reconciliation_id, every_seconds=0.5)
        expect(done.state == "finished", f"the reconciliation is {done.state}")
        expect(done.outcomes == {"redelivered": len(delivered)}, f"the reconciliation says {dict(done.outcomes)}")
        for schedule_id in delivered:
            self.await_calls(schedule_id, calls[schedule_id] + 1, "delivered")
        print(f"a reconciliation had {len(delivered)} called again, each once")

    def balance(self) -> None:
        def total() -> Counter[str]:
            found: Counter[str] = Counter()
            for minute in self.shop.balance(start=self.began - timedelta(minutes=1), end=self.end):
                for name in ("accepted", "delivered", "failed", "cancelled", "skipped", "open"):
                    found[name] += getattr(minute, name)
            return found

        wait_until(lambda: total()["open"] == 0, "books without anything open")
        books = total()
        expect(books["accepted"] == self.accepted, f"{self.accepted} were accepted; the books: {dict(books)}")
        expect(books["accepted"] == books["delivered"] + books["cancelled"], f"the books: {dict(books)}")
        expect(books["delivered"] == len(self.receiver.calls), f"the books: {dict(books)}")
        print("the books balance:", ", ".join(f"{name} {count}" for name, count in books.items()))

    def go(self) -> None:
        self.try_receiver()
        ids = self.create_some()
        self.cancel_some()
        ids.append(self.reschedule_one())
        for schedule_id in ids:
            self.await_calls(schedule_id, 1, "delivered")
        print(f"{len(ids)} calls came, each signed")
        self.call_again(ids[0])
        self.reconcile()
        self.balance()
        expect(not self.receiver.refusals, f"calls that could not be verified: {self.receiver.refusals}")


def refused(shop: ClientScope) -> bool:
    try:
        shop.pollers()
    except MinutehandApiError as error:
        expect(error.kind == "unauthorized", f"a revoked key was answered {error.kind}")
        return True
    return False


def tour(url: str, admin_key: str, host: str) -> None:
    client_id = f"tour-{uuid.uuid4().hex[:12]}"
    receiver = Receiver(host)
    with Minutehand(url, admin_key) as admin:
        registered = admin.clients.register(client_id, poller_quota=2)
        try:
            assert registered.signing_secret is not None
            receiver.secret = registered.signing_secret.secret
            key = admin.client(client_id).keys.create()
            print(f"client {client_id} registered at {url}, with a key and a signing secret")
            with Minutehand(url, key.key) as api:
                Tour(api.client(client_id), receiver).go()
                admin.client(client_id).keys.revoke(key.key_id)
                # Other API processes may accept the key for some seconds.
                wait_until(lambda: refused(api.client(client_id)), "the revoked key refused")
        finally:
            admin.clients.suspend(client_id)
            admin.clients.delete(client_id)
            receiver.shutdown()
            receiver.server_close()
    print("its key is revoked, the client deleted: all as it should be")


def main() -> int:
    parser = argparse.ArgumentParser(description="Everything a client can ask for, once.")
    parser.add_argument("--url", default=os.environ.get("API"), help="address of the API (environment: API)")
    parser.add_argument("--admin-key", default=os.environ.get("ADMIN_KEY"), help="environment: ADMIN_KEY")
    parser.add_argument("--receiver-host", default="127.0.0.1", help="address of this machine that nodes may call")
    given = parser.parse_args()
    if not given.url or not given.admin_key:
        parser.error("say where the API is and with which key: --url and --admin-key, or API and ADMIN_KEY")
    try:
        tour(given.url, given.admin_key, given.receiver_host)
    except (Surprise, MinutehandClientError, ValueError) as error:
        print(f"not as it should be: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
