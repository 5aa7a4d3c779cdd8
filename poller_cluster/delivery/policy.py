"""The network policy at the socket: judged by the address that libcurl is about to connect to."""

from collections.abc import Sequence

from scheduler_service.domain.network import NetworkPolicy, Refusal

__all__ = ["NetworkPolicy", "Refusal", "judge_socket_address"]


def judge_socket_address(policy: NetworkPolicy, address: object) -> Refusal | None:
    """Judge a socket address as libcurl names it: (host, port, …). Anything else is no internet address: refused."""
    if isinstance(address, Sequence) and len(address) >= 2:
        host, port = address[0], address[1]
        if isinstance(host, str) and isinstance(port, int):
            return policy.judge(host, port)
    return Refusal("forbidden-address", "the connection is not to an IP address")
