"""An API process that is stopped while a trial call is under way."""

import socket
from concurrent.futures import ThreadPoolExecutor

from minutehand.client import Callback, Exchange
from tests.support.processes import Deployment


def test_the_caller_of_a_trial_call_is_answered(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("node-a")
    key = cluster.register("shop", poller_quota=1)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as elsewhere:
        listener.settimeout(30)
        callback = Callback(url=f"http://127.0.0.1:{listener.getsockname()[1]}/")

        def ask() -> Exchange:
            with cluster.client("shop", key) as shop:
                return shop.trial_call(callback, timeout_seconds=60)

        asked = elsewhere.submit(ask)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4) == b"POST"
            cluster.stop_one("api")
            exchange = asked.result()
    assert (exchange.error, exchange.sent, exchange.status) == ("stopped", True, None)
