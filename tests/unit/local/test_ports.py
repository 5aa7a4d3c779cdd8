"""Free and used ports, and addresses of other machines."""

import socket

import pytest

from minutehand.errors import LocalError
from minutehand.local.errors import PortBusy, PortUnusable
from minutehand.local.machine import check_loopback, check_port, free_ports


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        check_port("127.0.0.1", port, setting="--port")


def test_a_taken_port_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortBusy) as caught:
            check_port("127.0.0.1", port, setting="--native-port")
    message = f"Port {port} on 127.0.0.1 is used by another program."
    assert str(caught.value) == f"{message} Stop that program, or choose another port with --native-port."
    assert caught.value.port == port


def test_a_port_taken_on_every_address_is_taken() -> None:
    with socket.create_server(("", 0)) as server, pytest.raises(PortBusy):
        check_port("127.0.0.1", server.getsockname()[1], setting="--port")


def test_a_port_whose_last_connections_linger_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        client = socket.create_connection(address)
        accepted, _ = server.accept()
        accepted.close()
        client.close()
    check_port(*address, setting="--port")


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", 9042)])
def test_an_unusable_address_is_refused(host: str, port: int) -> None:
    with pytest.raises(PortUnusable):
        check_port(host, port, setting="--port")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example", ""])
def test_only_loopback_is_allowed(host: str) -> None:
    with pytest.raises(LocalError, match="loopback"):
        check_loopback(host)


def test_all_of_loopback_is_allowed() -> None:
    check_loopback("127.0.0.1")
    check_loopback("127.0.0.3")
