"""Runs the phases and prints their results."""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from minutehand.__main__ import heed_interrupts
from minutehand.local import LocalError
from minutehand.processes.programs import Program
from minutehand.version import VERSION
from tests.bench import cluster, crons, million, neighbours, phases
from tests.bench import receivers_down as outage
from tests.bench import scale as scaling
from tests.bench import soak as soaking
from tests.bench.phases import Bench, Figures
from tests.bench.scale_picture import draw
from tests.bench.show import show
from tests.bench.warm_up import warm_up
from tests.bench.whole_seconds import calls_at_whole_seconds
from tests.support.cassandra import SuiteCassandra, embedded_cassandra
from tests.support.certificates import Authority
from tests.support.processes import deployment

HEAP_MB = 1024
BELOW_SUSTAINED = "calls_at_80_percent"
MEANWHILE = "neighbour_mistreated"
"""Measured between the creates and the calls of the phase above, when nothing else loads the machine for most of a
minute."""
SCALE = "scale"
OWN_NODES = ("node", "idle", "soak")
"""Prefixes of phases that start nodes of their own."""
NO_BUDGET = {"admin_budget_per_second": 1_000_000, "client_budget_per_second": 1_000_000}
"""No phase measures the budget of requests."""
Phases = Mapping[str, tuple[str, Callable[[Bench], Figures]]]


def main() -> int:
    arguments = _parser().parse_args()
    try:
        results = _run(arguments)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    show(results)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if arguments.picture is not None and "scale" in results:
        draw(results["scale"], arguments.picture)
    return 1 if results.get("soak", {}).get("faults") else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure creates, calls, lateness and moves.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--only", default="", metavar="NAMES", help="phases that begin with one of these, by comma")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw what `scale` found as PNG (needs matplotlib)"
    )
    parser.add_argument(
        "--warm-up", type=float, default=30.0, help="seconds of creates and calls before anything is measured; 0: none"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of each of the phases of creates")
    parser.add_argument("--flat-out", type=int, default=60_000, help="calls in the phase that asks for too much")
    parser.add_argument("--steady-rate", type=int, default=1_000, help="calls a second in the steady phase")
    parser.add_argument("--steady-seconds", type=float, default=15.0, help="length of the steady phase")
    parser.add_argument("--steady-lead", type=float, default=10.0, help="seconds from its creates to its first call")
    parser.add_argument("--whole-seconds", type=float, default=15.0, help="length of the phase of calls at each second")
    parser.add_argument("--nodes", type=int, default=1, help="nodes")
    parser.add_argument("--api-processes", type=int, default=1, help="API processes, behind one port")
    parser.add_argument("--million", type=int, default=1_000_000, help="calls due within one minute")
    parser.add_argument("--sustained-rate", type=float, help="what the phase below it takes for it; else the million's")
    parser.add_argument("--below-seconds", type=float, default=20.0, help="length of the phase at 80 %% of that")
    parser.add_argument("--crowd", type=int, default=60_000, help="calls of a loud client at one second")
    parser.add_argument("--down-calls", type=int, default=3_000, help="calls of a client whose receiver is down")
    parser.add_argument("--down-seconds", type=float, default=30.0, help="for how long it is")
    parser.add_argument("--crons", type=int, default=0, help="so many crons too, a quarter of them at one minute")
    parser.add_argument("--soak", type=float, default=0.0, help="so many seconds of steady calls and restarts too")
    parser.add_argument("--soak-rate", type=int, default=1_000, help="calls a second in it")
    parser.add_argument("--lost-rate", type=int, default=200, help="calls a second while a node is lost")
    parser.add_argument("--idle-clients", type=int, default=98, help="clients with 1,024 idle pollers each")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="how long their steady cost is measured")
    scale = parser.add_argument_group(
        SCALE,
        f"Only with --only {SCALE}, and best alone: it leaves thousands of clients behind. About 20 minutes, a quarter "
        "of them to register 10,000 clients; with --scale-points 3 about 9.",
    )
    scale.add_argument("--scale-points", type=int, metavar="N", help="so many points of each axis; else all")
    scale.add_argument("--scale-calls", type=int, default=20_000, help="calls at each point")
    scale.add_argument("--scale-seconds", type=float, default=6.0, help="of creates at each point")
    return parser


def _phases(arguments: argparse.Namespace) -> Phases:
    """Every phase by name: what is printed before it, and what it does."""
    steady = arguments.steady_rate, arguments.steady_seconds
    return {
        "creates_alone": (
            "Creating, one at a time.",
            lambda bench: phases.creates_alone(bench, seconds=min(arguments.seconds, 5.0)),
        ),
        "creates_single": (
            "Creating, one a request.",
            lambda bench: phases.creates_single(bench, seconds=arguments.seconds),
        ),
        "creates_single_scattered": (
            "Creating, one a request, due in no order.",
            lambda bench: phases.creates_single(bench, seconds=arguments.seconds, scattered=True),
        ),
        "creates_batched": (
            "Creating, 1,000 a request.",
            lambda bench: phases.creates_batched(bench, seconds=arguments.seconds),
        ),
        "creates_batched_scattered": (
            "Creating, 1,000 a request, due in no order.",
            lambda bench: phases.creates_batched(bench, seconds=arguments.seconds, scattered=True),
        ),
        "creates_keyed": (
            "Creating, one a request, with Idempotency-Keys.",
            lambda bench: phases.creates_keyed(bench, seconds=arguments.seconds),
        ),
        "creates_once": (
            "Creating, one a request, with tokens.",
            lambda bench: phases.creates_once(bench, seconds=arguments.seconds),
        ),
        "puts_new": (
            "Creating, one a request, each under a new key of the client's.",
            lambda bench: phases.puts_new(bench, seconds=arguments.seconds),
        ),
        "puts_again": (
            "Replacing, one a request, under 1,000 keys of the client's.",
            lambda bench: phases.puts_again(bench, seconds=arguments.seconds),
        ),
        "creates_sdk": (
            "Creating through the SDK.",
            lambda bench: phases.creates_sdk(bench, seconds=arguments.seconds, asynchronous=False),
        ),
        "creates_sdk_async": (
            "Creating through the asynchronous SDK.",
            lambda bench: phases.creates_sdk(bench, seconds=arguments.seconds, asynchronous=True),
        ),
        "calls_flat_out": (
            f"Calling, {arguments.flat_out:,} at once.",
            lambda bench: phases.calls(bench, count=arguments.flat_out, over_seconds=2.0, lead_seconds=20.0),
        ),
        "calls_steady": (
            f"Calling, {steady[0]:,} a second for {steady[1]:g} s.",
            lambda bench: phases.calls(
                bench,
                count=round(steady[0] * steady[1]),
                over_seconds=steady[1],
                lead_seconds=arguments.steady_lead,
            ),
        ),
        "calls_noticed": (
            f"Calling, {steady[0]:,} a second for {steady[1]:g} s, and sending every end as an event.",
            lambda bench: phases.calls_noticed(
                bench,
                count=round(steady[0] * steady[1]),
                over_seconds=steady[1],
                lead_seconds=arguments.steady_lead,
            ),
        ),
        "calls_acknowledged": (
            f"Calling, {steady[0]:,} a second for {steady[1]:g} s, and acknowledging every call later.",
            lambda bench: phases.calls_acknowledged(
                bench,
                count=round(steady[0] * steady[1]),
                over_seconds=steady[1],
                lead_seconds=arguments.steady_lead,
            ),
        ),
        "calls_at_whole_seconds": (
            f"Calling, {steady[0]:,} at each of {arguments.whole_seconds:g} whole seconds.",
            lambda bench: calls_at_whole_seconds(
                bench,
                rate=steady[0],
                seconds=arguments.whole_seconds,
                lead_seconds=arguments.steady_lead,
            ),
        ),
        "million": (
            f"Calling, {arguments.million:,} in one minute, for two minutes.",
            lambda bench: million.million(bench, count=arguments.million),
        ),
        BELOW_SUSTAINED: (
            f"Calling, 80 % of what was sustained, for {arguments.below_seconds:g} s.",
            lambda bench: phases.calls_below_sustained(
                bench,
                part=0.8,
                seconds=arguments.below_seconds,
                meanwhile_seconds=neighbours.MISTREATED_SECONDS,
            ),
        ),
        "neighbour_crowded": (
            f"Calling for a quiet client while another one has {arguments.crowd:,} calls at one second.",
            lambda bench: neighbours.crowded(bench, calls=arguments.crowd),
        ),
        "neighbour_mistreated": (
            "Calling for a quiet client while another one's receivers hang, reset, dawdle and flood.",
            lambda bench: neighbours.mistreated(bench, rate=25),
        ),
        "receivers_down": (
            f"Calling for a quiet client while another one's {arguments.down_calls:,} calls are refused for "
            f"{arguments.down_seconds:g} s.",
            lambda bench: outage.receivers_down(bench, calls=arguments.down_calls, seconds=arguments.down_seconds),
        ),
        "crons": (
            f"Creating {arguments.crons:,} crons, and calling a quarter of them at each of two minutes.",
            lambda bench: crons.crons(bench, count=arguments.crons),
        ),
        SCALE: (
            "Creating and calling for more and more pollers, clients, hosts and bytes.",
            lambda bench: scaling.scale(
                bench,
                calls=arguments.scale_calls,
                seconds=arguments.scale_seconds,
                count=arguments.scale_points,
            ),
        ),
        "soak": (
            f"Calling, {arguments.soak_rate:,} a second for {arguments.soak:g} s, and restarting every node.",
            lambda bench: soaking.soak(bench, rate=arguments.soak_rate, seconds=arguments.soak),
        ),
        "node_killed": (
            "Killing one of three nodes under load.",
            lambda bench: cluster.node_lost(bench, how=signal.SIGKILL, rate=arguments.lost_rate),
        ),
        "node_stopped": (
            "Stopping one of three nodes under load.",
            lambda bench: cluster.node_lost(bench, how=signal.SIGTERM, rate=arguments.lost_rate),
        ),
        "idle_pollers": (
            f"Owning {arguments.idle_clients * cluster.POLLERS_A_CLIENT:,} idle pollers.",
            lambda bench: cluster.idle_pollers(bench, clients=arguments.idle_clients, seconds=arguments.idle_seconds),
        ),
    }


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen = {
        name: phase
        for name, phase in _phases(arguments).items()
        if not arguments.only or name.startswith(tuple(arguments.only.split(",")))
    }
    if not arguments.crons:
        chosen.pop("crons", None)
    if not arguments.soak and "soak" in chosen:
        del chosen["soak"]
    if not arguments.only:
        chosen.pop(SCALE, None)
    if arguments.sustained_rate is None and "million" not in chosen and chosen.pop(BELOW_SUSTAINED, None):
        _say("Not calling at 80 %: without the million, or --sustained-rate, nobody knows of what.")
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="minutehand-bench-")))
        running = parts.enter_context(embedded_cassandra(heap_mb=HEAP_MB))
        server = SuiteCassandra(running.contact_points, running.port, running.datacenter, running)
        authority = Authority(directory) if SCALE in chosen else None
        tables = {"api": NO_BUDGET, **({} if authority is None else scaling.tables(authority))}
        built = parts.enter_context(deployment(server, directory, tables=tables))
        offered = {"MINUTEHAND_ACKNOWLEDGEMENTS_BASE_URL": built.api_url}
        api = built.start_api(processes=arguments.api_processes, variables=offered)
        own = [f"bench-{number}" for number in range(1, arguments.nodes + 1)]
        pids = {name: built.start_node(name, variables=offered).pid for name in own}
        bench = Bench(
            deployment=built,
            key=built.register(phases.CLIENT, poller_quota=phases.QUOTA),
            directory=directory,
            pids={
                "cassandra": running.pid,
                **_api_pids(api, arguments.api_processes),
                **pids,
                "receiver": built.receiver.program.pid,
            },
            sustained=arguments.sustained_rate,
            authority=authority,
        )
        results: dict[str, Any] = {"machine": _machine(), "version": VERSION, "nodes": arguments.nodes}
        if arguments.warm_up and any(not name.startswith(OWN_NODES) for name in chosen):
            _say("Warming up.")
            warm_up(bench, seconds=arguments.warm_up)

        def measure(name: str) -> None:
            if name in chosen and name not in results:
                sentence, phase = chosen[name]
                _say(sentence)
                results[name] = phase(bench)

        bench.meanwhile = lambda: measure(MEANWHILE)
        for name in chosen:
            if name.startswith(OWN_NODES):
                for one in own:
                    built.stop_one(one)
                own = []
            measure(name)
        return results


def _api_pids(api: Program, processes: int) -> dict[str, int]:
    """The pids of the API's processes, which the parent's log names."""
    if processes == 1:
        return {"api": api.pid}
    lines = map(json.loads, api.log_file.read_text(encoding="utf-8").splitlines())
    return {line["process"]: line["pid"] for line in lines if line["action"] == "process-started"}


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    heed_interrupts()
    sys.exit(main())
