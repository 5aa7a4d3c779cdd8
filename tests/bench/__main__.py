"""Runs the phases and prints what they found."""

import argparse
import json
import os
import platform
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from minutehand.local import LocalError
from minutehand.version import VERSION
from tests.bench import phases
from tests.support.cassandra import SuiteCassandra, embedded_cassandra
from tests.support.processes import deployment

HEAP_MB = 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure creates, calls and lateness.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds of creates before anything is measured")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each of the two phases of creates")
    parser.add_argument("--flat-out", type=int, default=60_000, help="calls in the phase that asks for too much")
    parser.add_argument("--steady-rate", type=int, default=1_000, help="calls a second in the steady phase")
    parser.add_argument("--steady-seconds", type=float, default=30.0, help="length of the steady phase")
    parser.add_argument("--pollers", type=int, default=1, help="poller processes")
    arguments = parser.parse_args()
    try:
        results = _run(arguments)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    _print(results)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="minutehand-bench-")))
        running = parts.enter_context(embedded_cassandra(heap_mb=HEAP_MB))
        server = SuiteCassandra(running.contact_points, running.port, running.datacenter, running)
        built = parts.enter_context(deployment(server, directory))
        api = built.start_api()
        pollers = [built.start_poller(f"bench-{number}") for number in range(1, arguments.pollers + 1)]
        bench = phases.Bench(
            deployment=built,
            key=built.register(phases.CLIENT, poller_quota=phases.QUOTA),
            directory=directory,
            pids={
                "cassandra": running.pid,
                "api": api.pid,
                **{f"poller-{number}": one.pid for number, one in enumerate(pollers, start=1)},
                "receiver": built.receiver.program.pid,
            },
        )
        results: dict[str, Any] = {"machine": _machine(), "version": VERSION, "pollers": arguments.pollers}
        _say("Warming up.")
        phases.creates_single(bench, seconds=arguments.warm_up)
        phases.creates_batched(bench, seconds=arguments.warm_up)
        _say("Creating, one a request.")
        results["creates_single"] = phases.creates_single(bench, seconds=arguments.seconds)
        _say("Creating, 1,000 a request.")
        results["creates_batched"] = phases.creates_batched(bench, seconds=arguments.seconds)
        _say(f"Calling, {arguments.flat_out} at once.")
        results["calls_flat_out"] = phases.calls(bench, count=arguments.flat_out, over_seconds=2.0, lead_seconds=20.0)
        _say(f"Calling, {arguments.steady_rate} a second for {arguments.steady_seconds:g} s.")
        results["calls_steady"] = phases.calls(
            bench,
            count=round(arguments.steady_rate * arguments.steady_seconds),
            over_seconds=arguments.steady_seconds,
            lead_seconds=15.0,
        )
        return results


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }


PHASES = ("creates_single", "creates_batched", "calls_flat_out", "calls_steady")


def _print(results: dict[str, Any]) -> None:
    console = Console(soft_wrap=True)
    rates = _table("", "rate/s", "p50 ms", "p99 ms", "max ms", "lost", "repeated", "early")
    processes = sorted({name for phase in PHASES for name in results[phase]["cpu_seconds_per_1000"]} - {"all"})
    cpu = _table("CPU seconds per 1,000", "all", *processes)
    for phase in PHASES:
        found = results[phase]
        times = found.get("lateness_ms") or {key: found[f"{key}_ms"] for key in ("p50", "p99", "max")}
        rate = found["fired_per_second"] if "lost" in found else found["created_per_second"]
        name = phase.replace("_", " ")
        counts = [str(found.get(key, "")) for key in ("lost", "repeated", "early")]
        rates.add_row(name, f"{rate or 0:,.0f}", *(f"{times[key] or 0:,.1f}" for key in ("p50", "p99", "max")), *counts)
        used = found["cpu_seconds_per_1000"]
        cpu.add_row(name, *(f"{used[key]:.3f}" if key in used else "" for key in ("all", *processes)))
    machine = results["machine"]
    system = f"{machine['system']} {machine['arch']}, Python {machine['python']}"
    console.print(rates)
    console.print()
    console.print(cpu)
    print(f"\n{machine['cores']} cores for everything, {system}.")
    print("Times are of the answers for creates, and of lateness for calls.")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right", no_wrap=True)
    return table


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
