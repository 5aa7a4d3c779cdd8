"""The overdue rate of all clients together."""

import msgspec

from minutehand.client._calls import Operation

_PATH = "/v1/cluster/overdue-rate"


class OverdueRate(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls a second are made, over all nodes, of those that are more than a minute late; None: as many as
    limits permit."""

    overdue_per_second: float | None = None


def get_overdue_rate() -> Operation[OverdueRate]:
    return Operation(method="GET", path=_PATH, answer=OverdueRate)


def set_overdue_rate(per_second: float) -> Operation[OverdueRate]:
    body = msgspec.json.encode({"overdue_per_second": per_second})
    return Operation(method="PUT", path=_PATH, answer=OverdueRate, body=body)


def remove_overdue_rate() -> Operation[None]:
    return Operation(method="DELETE", path=_PATH, answer=None)
