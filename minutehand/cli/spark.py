"""`minutehand spark run JOB`: the Spark jobs on this machine, against the cluster of the configuration."""

from pathlib import Path
from typing import Annotated

import typer

from minutehand.cli.options import AsJson, ConfigFile, environment

app = typer.Typer(help="Run jobs over Minutehand's tables with Spark, on this machine.")


@app.command(
    epilog="Example: minutehand spark run usage --config minutehand.toml",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def run(
    context: typer.Context,
    config: ConfigFile = None,
    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: local[*] takes every core of this machine.")
    ] = "local[*]",
    memory: Annotated[str, typer.Option("--memory", help="Memory of Spark's Java heap, as Java writes it.")] = "1g",
    as_json: AsJson = False,
) -> None:
    """Run a job and print its report. `minutehand spark run JOB --help` shows a job's arguments.

    JOB: audit_books, usage, capacity, archive, restore, bulk_load or tz_audit.
    """
    from minutehand.local.spark import prepare_spark, require_spark

    require_spark()
    from spark.program import REFUSED, is_refused, parse
    from spark.program import run as run_job

    job, arguments = parse([*context.args, *["--json"] * as_json], program="minutehand spark run")
    if is_refused(job, arguments):
        raise typer.Exit(REFUSED)
    # Slow to import, so that a refusal comes first.
    from minutehand.config import FOR_STORAGE, load_settings
    from minutehand.local.progress import ProgressLines
    from scheduler_service.runtime.clock import SystemClock
    from spark.session import SparkSettings

    configured = load_settings(environment=environment(), file=config, required=FOR_STORAGE)
    settings = SparkSettings(
        storage=configured.cassandra,
        master=master,
        jars=prepare_spark(ProgressLines()),
        driver_memory=memory,
        policy=configured.network,
        bounds=configured.node.clients,
        secrets=configured.secrets,
    )
    raise typer.Exit(run_job(job, arguments, settings, clock=SystemClock()))


@app.command(epilog="Example: minutehand spark demo --rows 10000")
def demo(
    rows: Annotated[int, typer.Option("--rows", min=1_000, help="How many schedules to load.")] = 200_000,
    directory: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Where data, logs and reports are kept; begun again at every start."),
    ] = Path(".minutehand/spark-demo"),
) -> None:
    """Load schedules, see the due ones called, and run every job.

    They are archived and restored, the books audited, usage and capacity counted: all on this machine, with its own
    Cassandra, API, nodes and receiver. It ends by itself.
    """
    from minutehand.local.demo.run import run_spark_demo
    from minutehand.local.progress import ProgressLines

    run_spark_demo(directory, rows=rows, say=lambda line: typer.echo(line), progress=ProgressLines())
