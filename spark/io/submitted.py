"""What spark-submit was told of the operator's rules: `--conf spark.minutehand.network.NAME` and `.clients.NAME`, named
as in Minutehand's configuration, lists by comma."""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from pyspark import SparkConf

from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.network import NetworkPolicy

_NETWORK, _CLIENTS = "spark.minutehand.network.", "spark.minutehand.clients."


def submitted_policy(conf: SparkConf) -> NetworkPolicy:
    """Raises ValueError for what can't be read."""
    given = {name.removeprefix(_NETWORK): _parts(text) for name, text in conf.getAll() if name.startswith(_NETWORK)}
    _check_names(_NETWORK, given.keys(), {"allow", "deny", "allow_ports", "schemes"})
    ports = given.get("allow_ports")
    return NetworkPolicy.parse(
        allow=given.get("allow", ()),
        deny=given.get("deny", ()),
        allow_ports=None if ports is None else map(int, ports),
        schemes=given.get("schemes", ("http", "https")),
    )


def submitted_bounds(conf: SparkConf) -> ClientBounds:
    """Raises ValueError for what can't be read, or can't be a bound."""
    given = {name.removeprefix(_CLIENTS): text for name, text in conf.getAll() if name.startswith(_CLIENTS)}
    kinds: dict[str, Any] = {one.name: type(one.default) for one in fields(ClientBounds)}
    _check_names(_CLIENTS, given.keys(), kinds.keys())
    return ClientBounds(**{name: kinds[name](text) for name, text in given.items()})


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check_names(prefix: str, given: Collection[str], known: Collection[str]) -> None:
    for name in sorted(set(given) - set(known)):
        raise ValueError(f"{prefix}{name} is no setting; there are {', '.join(sorted(known))}")
