"""The command line of the jobs: the same for `minutehand spark run JOB` and for `spark-submit`."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence

from spark.jobs import JOBS
from spark.jobs.job import Job


def parse(arguments: Sequence[str], *, program: str) -> tuple[Job, Namespace]:
    """Which job, and what it was given. Leaves the process with a sentence where the arguments make no sense."""
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
