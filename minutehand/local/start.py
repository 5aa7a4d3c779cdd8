"""The calls that most callers need: a running Cassandra on chosen or given ports, and whether it would start."""

from pathlib import Path

from minutehand.local.cassandra import EmbeddedCassandra, RunningCassandra
from minutehand.local.errors import PortBusy
from minutehand.local.machine import free_ports
from minutehand.local.progress import Progress, silent

_CHOICES = 3


def check_cassandra(
    data_dir: Path,
    *,
    native_port: int | None = None,
    heap_mb: int = 1024,
    freed_bytes: int = 0,
    progress: Progress = silent,
) -> None:
    """Raise the errors that `start_cassandra` with these arguments would raise before it starts the server, as
    `EmbeddedCassandra.check` says."""
    native, storage = free_ports(2)
    EmbeddedCassandra(
        data_dir=data_dir,
        native_port=native if native_port is None else native_port,
        storage_port=storage,
        heap_mb=heap_mb,
    ).check(progress, freed_bytes=freed_bytes)


def start_cassandra(
    data_dir: Path,
    *,
    native_port: int | None = None,
    storage_port: int | None = None,
    host: str = "127.0.0.1",
    seeds: tuple[str, ...] = (),
    cluster_name: str = "minutehand",
    heap_mb: int = 1024,
    tied: bool = True,
    durable: bool = False,
    java_options: tuple[str, ...] = (),
    progress: Progress = silent,
) -> RunningCassandra:
    """Start a server on `data_dir` and return when it answers CQL. Blocks; call it from a thread in async code.

    A port of None is chosen, and chosen again when another program takes it first. Everything else is as in
    `EmbeddedCassandra`, errors included.
    """
    for choice in range(_CHOICES):
        spare = iter(free_ports(2, (host,)))
        recipe = EmbeddedCassandra(
            data_dir=data_dir,
            native_port=next(spare) if native_port is None else native_port,
            storage_port=next(spare) if storage_port is None else storage_port,
            host=host,
            seeds=seeds,
            cluster_name=cluster_name,
            heap_mb=heap_mb,
            tied=tied,
            durable=durable,
            java_options=java_options,
        )
        try:
            return recipe.start(progress)
        except PortBusy as error:
            # Only ports chosen here may be replaced, not the caller's.
            if error.port in (native_port, storage_port) or choice == _CHOICES - 1:
                raise
    raise AssertionError("unreachable")
