"""The network policy at the socket: judged by the address that is about to be connected to."""

from collections.abc import Sequence

from scheduler_service.domain.network import NetworkPolicy, Refusal

__all__ = ["NetworkPolicy", "Refusal", "judge_socket_address"]


REFUSED = "the network policy refuses what the URL's host leads to"


def judge_socket_address(policy: NetworkPolicy, address: object) -> Refusal | None:
    """Judge a socket address: (host, port, …). Anything else is no internet address: refused.

    What a name leads to inside of the operator's network is not the tenant's to know: the refusal does not say it.
    """
    if isinstance(address, Sequence) and len(address) >= 2:
        host, port = address[0], address[1]
        if isinstance(host, str) and isinstance(port, int):
            refusal = policy.judge(host, port)
            hidden = refusal is not None and refusal.code == "forbidden-address"
            return Refusal("forbidden-address", REFUSED) if hidden else refusal
    return Refusal("forbidden-address", "the connection is not to an IP address")
