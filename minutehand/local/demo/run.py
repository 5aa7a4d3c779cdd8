"""The demo: everything on this machine, and callbacks to watch.

    the cluster -> client, key, signing secret -> receiver -> schedules -> callbacks

The data stays in the directory: the next start goes on with it, and is quicker.
"""

import asyncio
import signal
from contextlib import ExitStack

from minutehand.local.demo.cluster import SIGNALS, ClusterOptions, DemoCluster, signals_interrupt
from minutehand.local.demo.show import DemoShow, Say
from minutehand.local.progress import Progress


def run_demo(options: ClusterOptions, *, once: bool, say: Say, progress: Progress) -> None:
    """Run until Ctrl-C or SIGTERM; with `once` until the first callbacks were verified.

    Raises LocalError, and KeyboardInterrupt when it was interrupted before there was anything to watch.
    """
    cluster = DemoCluster(options, say=say, progress=progress)
    show: DemoShow | None = None
    with signals_interrupt(), ExitStack() as running:
        try:
            cluster.directory.claim(running)
            started = cluster.start(running)
            show = DemoShow(cluster.directory, started.plan, started.pids, once=once, say=say)
            running.callback(cluster.directory.clear_state)
            asyncio.run(show.run(started.watched))
        except KeyboardInterrupt:
            if show is None or not show.staying:
                raise
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            if cluster.begun:
                say("Stopping.")
