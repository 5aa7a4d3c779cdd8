"""`make storm`: one client's receiver is down, and everything is restarted amid its retries, twice: by SIGKILL and by
SIGTERM, each with a cold Cassandra. Measures another client's calls and the cluster's heartbeats.

The acceptance test of the same scene is its small form; this one takes minutes.
"""

import argparse
import json
import signal
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.cassandra import SuiteCassandra, embedded_cluster
from tests.support.processes import deployment
from tests.support.receivers_down import (
    NODES,
    QUIET,
    STRICKEN,
    Watched,
    create_doomed,
    next_minute,
    start_all,
    stop_all,
    watch,
)

HEAP_MB = 1024
QUOTA = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="make storm", description="Restart everything amid one client's retries.")
    parser.add_argument("--rows", type=int, default=60_000, help="schedules of one minute whose receiver is down")
    parser.add_argument("--pollers", type=int, default=QUOTA, help="quota of their client")
    parser.add_argument("--key", help="the one ordering key of all of them")
    parser.add_argument("--seconds", type=float, default=120.0, help="of watching after each restart")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="minutehand-storm-") as scratch,
        embedded_cluster(1, heap_mb=HEAP_MB, java_options=()) as nodes,
    ):
        server = SuiteCassandra(nodes.contact_points, nodes.port, nodes.datacenter, None)
        with deployment(server, Path(scratch)) as cluster:
            start_all(cluster, None)
            doomed = cluster.register(STRICKEN, poller_quota=arguments.nodes)
            quiet = cluster.register(QUIET, poller_quota=4)
            start = next_minute(at_least_seconds=5 + arguments.rows / 3_000)
            create_doomed(cluster, doomed, rows=arguments.rows, ordering_key=arguments.key, start=start)
            print(f"{arguments.rows} schedules are created, due from {start:%H:%M:%S} on.", flush=True)
            time.sleep(max((start + timedelta(seconds=75) - datetime.now(UTC)).total_seconds(), 0))
            for how in (signal.SIGKILL, signal.SIGTERM):
                began = time.monotonic()
                stop_all(cluster, nodes, how)
                start_all(cluster, nodes)
                print(f"{how.name}: everything runs again after {time.monotonic() - began:.0f} s.", flush=True)
                seen = watch(
                    cluster,
                    quiet,
                    seconds=arguments.seconds,
                    every=10.0,
                    cassandra_pid=nodes.nodes[0].pid,
                    say=lambda line: print(line, flush=True),
                )
                _tell(seen)
                results[how.name] = asdict(seen)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def _tell(seen: Watched) -> None:
    late = sorted(seen.lateness_s)
    p50, p99 = (late[min(int(len(late) * share), len(late) - 1)] for share in (0.5, 0.99))
    print(
        f"Cassandra {seen.cassandra_cores:.2f} cores; {seen.last.edits:.0f} conditional writes of edits "
        f"({seen.last.edits_failed:.0f} unanswered); {seen.last.beats_failed:.0f} of {seen.last.beats:.0f} heartbeats "
        f"unanswered; longest without trust {seen.longest_distrust(len(NODES)):.0f} s; the other client's calls: "
        f"{len(late)}, {seen.missing} missing, {seen.api_refusals} creates refused, lateness p50 {p50:.3f} s, "
        f"p99 {p99:.2f} s, max {late[-1]:.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
