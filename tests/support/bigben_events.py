"""Events of BigBen as its API answers them."""

from typing import Any


def event(tenant: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"tenant": tenant, "id": name, "eventTime": "2027-02-01T10:00Z", **fields}
