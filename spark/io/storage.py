"""The stores of the `cql` room, for what is a row here and there: reports, and what the use cases do."""

from dataclasses import replace

from cql.settings import StorageSettings

_TIMEOUT_SECONDS = 10.0


def patient(storage: StorageSettings) -> StorageSettings:
    """Jobs wait longer for an answer than servers do."""
    return replace(storage, request_timeout_seconds=max(_TIMEOUT_SECONDS, storage.request_timeout_seconds))
