"""The interface of a job, and what a run is given."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from cql.settings import StorageSettings
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.usecases.secret_encryption import SecretSettings
from spark.errors import JobRefused as JobRefused
from spark.io.tables import Tables
from spark.session import IN_THE_CLEAR, PUBLIC_ONLY

Report = dict[str, Any]
"""A job's result, as JSON: plain values, instants as RFC 3339."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`storage`: the keyspace of `tables`, for what needs no Spark. `now`: when the job began, in UTC. `say`: prints a
    line of progress. `policy` and `bounds`: the operator's limits on what callbacks may reach and clients may request;
    `secrets`: how headers are encrypted; all the same as the API's."""

    session: SparkSession
    tables: Tables
    storage: StorageSettings
    now: datetime
    say: Callable[[str], None]
    policy: NetworkPolicy = PUBLIC_ONLY
    bounds: ClientBounds = UNBOUND
    secrets: SecretSettings = IN_THE_CLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`run` raises JobRefused, and so does `check`, for arguments that are wrong whatever the tables hold: it is called
    before Spark is started, which takes seconds. `render` answers the report as lines for a person. `notes`: text of
    its help below the arguments."""

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Context, Namespace], Report]
    render: Callable[[Report], Sequence[str]]
    check: Callable[[Namespace], None] = lambda _: None
    notes: str = ""
