"""The demo: a cluster on this machine, and callbacks to watch.

    the cluster -> client, key, signing secret -> receiver -> schedules -> callbacks

The data stays in the directory: the next start continues with it, and is quicker.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

from minutehand.local.demo.cluster import (
    SIGNALS,
    ClusterOptions,
    DemoCluster,
    run_until_interrupted,
    signals_interrupt,
)
from minutehand.local.demo.show import DemoShow, Say
from minutehand.local.demo.spark_show import PipelineShow
from minutehand.local.progress import Progress
from minutehand.local.spark import prepare_spark


def run_demo(options: ClusterOptions, *, once: bool, fresh: bool, say: Say, progress: Progress) -> None:
    """Run until Ctrl-C or SIGTERM; with `once` until the first callbacks were verified. `fresh`: without the data of
    earlier runs, which is deleted.

    Raises LocalError, and KeyboardInterrupt when interrupted before there was anything to watch.
    """
    cluster = DemoCluster(options, say=say, progress=progress)
    show: DemoShow | None = None
    with signals_interrupt(), ExitStack() as running:
        try:
            cluster.directory.claim(running)
            started = cluster.start(running, fresh=fresh)
            show = DemoShow(cluster.directory, started.plan, started.pids, once=once, say=say, kafka=started.kafka)
            running.callback(cluster.directory.clear_state)
            run_until_interrupted(show.run(started.watched))
        except KeyboardInterrupt:
            if show is None or not show.staying:
                raise
        finally:
            # A second Ctrl-C must not interrupt the shutdown.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)


def run_spark_demo(directory: Path, *, rows: int, say: Say, progress: Progress) -> None:
    """Run the data pipeline from end to end on this machine: bulk-loaded schedules are called, archived, audited and
    counted.

        the cluster -> orders in Parquet -> bulk_load -> what was due too soon for it, over the API -> callbacks
                    -> archive -> audit_books, usage, capacity

    Each job is the command that a user would type, and is shown before it runs. It starts from nothing each time.
    Raises LocalError when something did not go as it should, KeyboardInterrupt when interrupted.
    """
    began = time.monotonic()
    jars = prepare_spark(progress)
    options = ClusterOptions(directory=directory, outputs=(PipelineShow.OUTPUT,))
    cluster = DemoCluster(options, say=say, progress=progress)
    with signals_interrupt(), ExitStack() as running:
        try:
            cluster.directory.claim(running)
            started = cluster.start(running, fresh=True)
            show = PipelineShow(cluster.directory, started.plan, rows=rows, say=say)
            show.write_orders(jars)
            run_until_interrupted(show.run())
            say(f"All of that took {time.monotonic() - began:,.0f} s.")
        finally:
            # A second Ctrl-C must not interrupt the shutdown.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
