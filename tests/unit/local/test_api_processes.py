"""Several API processes behind one port: their settings, and the port's owner while they start."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from minutehand.local.machine import free_ports
from minutehand.processes.several import api_works, reserved_port
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.listening import CannotListen

KEY = "0123456789abcdef"


def listen(port: int, *, shared: bool = False) -> socket.socket:
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    taken.bind(("127.0.0.1", port))
    taken.listen()
    return taken


@pytest.fixture
def port() -> int:
    (one,) = free_ports(1)
    return one


def test_every_process_is_told_the_same_address_and_to_share_it() -> None:
    settings = ApiSettings(admin_key=KEY, host="127.0.0.1", port=0)
    works = api_works(settings, port=8081, processes=2, config=Path("a.toml"), sockets=Path("s"))
    assert [one.name for one in works] == ["api-0", "api-1"]
    for one in works:
        assert one.arguments[:3] == ["api", "--config", "a.toml"]
        assert one.arguments[3:] == ["--processes", "1", "--host", "127.0.0.1", "--port", "8081"]
        assert one.variables == {
            "MINUTEHAND_API_SHARE_PORT": "true",
            "MINUTEHAND_API_METRICS_SOCKET": f"s/{one.name}.sock",
        }


def test_a_port_of_zero_becomes_one_for_all() -> None:
    with reserved_port(ApiSettings(admin_key=KEY, port=0)) as port:
        assert port > 0
        with closing(listen(port, shared=True)), closing(listen(port, shared=True)):
            pass


def test_a_reserved_port_is_not_taken_alone(port: int) -> None:
    with reserved_port(ApiSettings(admin_key=KEY, port=port)) as reserved:
        assert reserved == port
        with socket.socket() as alone, pytest.raises(OSError, match="in use"):
            alone.bind(("127.0.0.1", port))
    listen(port).close()


@pytest.mark.parametrize("shared", [False, True])
def test_a_port_that_a_stranger_listens_on_is_refused(port: int, shared: bool) -> None:
    settings = ApiSettings(admin_key=KEY, port=port)
    with closing(listen(port, shared=shared)), pytest.raises(CannotListen, match="in use"), reserved_port(settings):
        pass


def test_a_shared_port_is_shared(port: int) -> None:
    settings = ApiSettings(admin_key=KEY, port=port, share_port=True)
    with closing(listen(port, shared=True)), reserved_port(settings) as reserved:
        assert reserved == port
