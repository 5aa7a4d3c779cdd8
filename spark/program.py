"""One run of one job, from the command line to its report."""

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from datetime import UTC, datetime

from scheduler_service.runtime.clock import Clock
from spark.errors import SPARK_FAILED, cause_of
from spark.io.tables import Tables
from spark.jobs import JOBS
from spark.jobs.job import Context, Job, JobRefused
from spark.session import SparkSettings, open_session

REFUSED = 2


def run(job: Job, arguments: Namespace, settings: SparkSettings, *, clock: Clock) -> int:
    """The exit code: 0, or REFUSED with a sentence on stderr where the job can't do what it was asked for.
    Raises what `open_session` does."""
    try:
        with open_session(settings, name=job.name) as session:
            context = Context(
                session=session,
                tables=Tables(session, settings.storage.keyspace),
                storage=settings.storage,
                now=datetime.fromtimestamp(clock.wall_ms() / 1000, UTC),
                say=_say,
                policy=settings.policy,
                bounds=settings.bounds,
                secrets=settings.secrets,
            )
            report = job.run(context, arguments)
    except JobRefused as error:
        _say(f"{job.name}: {error}")
        return REFUSED
    except SPARK_FAILED as error:
        _say(f"{job.name}: Spark could not do it: {cause_of(error)}")
        return 1
    lines = [json.dumps(report)] if arguments.json else job.render(report)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def is_refused(job: Job, arguments: Namespace) -> bool:
    """Whether the job refuses its arguments before anything is started; it says why on stderr."""
    try:
        job.check(arguments)
    except JobRefused as error:
        _say(f"{job.name}: {error}")
        return True
    return False


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def parse(arguments: Sequence[str], *, program: str) -> tuple[Job, Namespace]:
    """The job and its arguments. Exits the process with a sentence where the arguments are invalid.

    The command line of the jobs: the same for `minutehand spark run JOB` and for `spark-submit`.
    """
    parser = ArgumentParser(prog=program, description="Run a Spark job over Minutehand's tables.")
    commands = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for job in JOBS:
        one = commands.add_parser(
            job.name,
            help=job.summary,
            description=job.summary,
            epilog=job.notes,
            formatter_class=RawDescriptionHelpFormatter,
        )
        job.add_arguments(one)
        one.add_argument("--json", action="store_true", help="print the report as one JSON document")
    known = parser.parse_args(arguments)
    return next(job for job in JOBS if job.name == known.job), known
