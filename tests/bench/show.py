"""The results as tables."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

RATES = (
    "creates_alone",
    "creates_single",
    "creates_single_scattered",
    "creates_batched",
    "creates_batched_scattered",
    "creates_keyed",
    "creates_once",
    "puts_new",
    "puts_again",
    "creates_sdk",
    "creates_sdk_async",
    "calls_flat_out",
    "calls_steady",
    "calls_noticed",
    "calls_acknowledged",
    "calls_at_whole_seconds",
    "million",
    "calls_at_80_percent",
)
COMPARED = ("creates_keyed", "creates_once", "puts_new", "puts_again", "creates_sdk", "creates_sdk_async")
PLAIN = "creates_single"
"""The phase with which the others are compared."""
DOWN = "receivers_down"
NEIGHBOURS = ("neighbour_crowded", "neighbour_mistreated", DOWN)
MOVES = ("node_killed", "node_stopped")
_COUNTED = ("lost", "repeated", "early")


def show(results: dict[str, Any]) -> None:
    """Print the results; phases that did not run are left out."""
    console = Console(width=200)
    measured = [name for name in RATES if name in results]
    if measured:
        _show_rates(console, results, measured)
    if quiet := [name for name in NEIGHBOURS if name in results]:
        _show_neighbours(console, results, quiet)
    if moved := [name for name in MOVES if name in results]:
        _show_moves(console, results, moved)
    if "scale" in results:
        print_scale(console, results["scale"])
    if "crons" in results:
        _show_crons(console, results["crons"])
    if "soak" in results:
        _show_soak(console, results["soak"])
    if "idle_pollers" in results:
        _show_idle(console, results["idle_pollers"])
    if "creates_alone" in results:
        plain = results["creates_alone"]["plain_insert_ms"]
        print(f"A plain insert without API: p50 {plain['p50']:.1f} ms, p99 {plain['p99']:.1f} ms.")
    machine = results["machine"]
    system = f"{machine['system']} {machine['arch']}, Python {machine['python']}"
    print(f"{machine['cores']} cores for everything, {system}.")
    print("Times are of the answers for creates, and of lateness for calls.")


def _show_rates(console: Console, results: dict[str, Any], measured: list[str]) -> None:
    rates = _table("", "rate/s", "p50 ms", "p99 ms", "max ms", "lost", "repeated", "early", "due")
    processes = sorted({name for phase in measured for name in results[phase]["cpu_seconds_per_1000"]} - {"all"})
    cpu = _table("CPU seconds per 1,000", "all", *processes)
    for phase in measured:
        found = results[phase]
        times = found.get("lateness_ms") or {key: found[f"{key}_ms"] for key in ("p50", "p99", "max")}
        rate = found["fired_per_second"] if "fired_per_second" in found else found["created_per_second"]
        name = phase.replace("_", " ")
        rates.add_row(name, f"{rate or 0:,.0f}", *_times(times), *_counts(found), found.get("dues", ""))
        used = found["cpu_seconds_per_1000"]
        cpu.add_row(name, *(f"{used[key]:.3f}" if key in used else "" for key in ("all", *processes)))
    console.print(rates)
    console.print()
    console.print(cpu)
    console.print()
    for line in [*compared_with_plain(results), *told_of_seconds(results)]:
        print(line)
        print()
    if "million" in results:
        found = results["million"]
        print(f"A node with {found['created']:,} rows in one minute held at most {found['memory_mb']} MiB.")
        print()
    if "calls_at_80_percent" in results:
        found = results["calls_at_80_percent"]
        offered, sustained = found["offered_per_second"], found["sustained_per_second"]
        print(f"80 percent: {offered:,.0f} calls a second were due, {sustained:,.0f} are sustained.")
        print()


def compared_with_plain(results: Mapping[str, Any]) -> list[str]:
    """The cost of a create with a key, under a key or through the SDK, as multiples of a plain one: of the process that
    creates, and of all.
    """
    if PLAIN not in results:
        return []
    plain = results[PLAIN]["cpu_seconds_per_1000"]
    lines = []
    for phase in COMPARED:
        if phase in results:
            used = results[phase]["cpu_seconds_per_1000"]
            own = used["sdk"] if "sdk" in used else used["load"]
            lines.append(
                f"{phase.replace('_', ' ')}: {own:.3f} CPU seconds per 1,000 in its process, {own / plain['load']:.1f} "
                f"times the load generator's; {_warm(used) / _warm(plain):.2f} times a plain create in all, without "
                "compiling."
            )
    return lines


def told_of_seconds(results: Mapping[str, Any]) -> list[str]:
    """When the last of each second's calls was made."""
    found = results.get("calls_at_whole_seconds")
    if found is None:
        return []
    last = found["last_of_a_second_ms"]
    return [
        f"Of the calls due at one whole second the last was made {last['p50'] or 0:,.0f} ms after it (p50 of the "
        f"seconds), at most {last['max'] or 0:,.0f} ms."
    ]


def cost_of(point: Mapping[str, Any], kind: str) -> float:
    """CPU seconds of all per 1,000 `creates` or `calls`, without the JVM's compilers, which are busiest at the first
    points, whatever these are.
    """
    return _warm(point[kind]["cpu_seconds_per_1000"])


def _warm(used: Mapping[str, float]) -> float:
    return used["all"] - used.get("cassandra compiler", 0.0)


def scale_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """The cost of every point, and the same as a multiple of the first point of its axis."""
    rows = []
    for axis, points in groupby(found["points"], key=lambda point: str(point["axis"])):
        first: dict[str, float] = {}
        for point in points:
            row = [axis, point["name"]]
            for kind in ("creates", "calls"):
                cost = cost_of(point, kind)
                one = first.setdefault(kind, cost)
                row += [f"{cost:.3f}", f"{cost / one:.2f}" if one else ""]
            calls = point["calls"]
            row += [f"{point['creates']['created_per_second']:,.0f}", f"{calls['fired_per_second'] or 0:,.0f}"]
            rows.append([*row, *_counts(calls)])
    return rows


def print_scale(console: Console, found: Mapping[str, Any]) -> None:
    columns = ("", "creates CPU", "times the first", "calls CPU", "times the first", "creates/s", "calls/s", *_COUNTED)
    table = _table("CPU seconds per 1,000, without compiling", *columns)
    for row in scale_rows(found):
        table.add_row(*row)
    console.print(table)
    console.print()


def _show_neighbours(console: Console, results: dict[str, Any], quiet: list[str]) -> None:
    table = _table("a quiet client's calls", "p50 ms", "p99 ms", "max ms", "lost", "repeated", "early")
    for phase in quiet:
        found = results[phase]
        table.add_row(phase.replace("_", " "), *_times(found["lateness_ms"]), *_counts(found))
    console.print(table)
    console.print()
    if DOWN in results:
        found = results[DOWN]
        cores = ", ".join(f"{name} {used:.2f}" for name, used in found["cores_while_down"].items())
        cpu = ", ".join(f"{name} {used:.3f}" for name, used in found["cpu_seconds_per_1000"].items())
        print(f"{found['calls']:,} calls refused for {found['down_seconds']:g} s: cores meanwhile {cores}.")
        print(f"CPU seconds per 1,000 of them, until all were made: {cpu}.")
        print()


def _show_moves(console: Console, results: dict[str, Any], moved: list[str]) -> None:
    columns = ("p50 ms", "p99 ms", "max ms", "lost", "repeated", "early", "of them without doubt")
    table = _table("one of three nodes", "pollers moved", "fire again after s", *columns)
    for phase in moved:
        found = results[phase]
        table.add_row(
            phase.removeprefix("node_"),
            str(found["pollers_moved"]),
            f"{found['fired_again_after_seconds']:.1f}",
            *_times(found["lateness_ms"]),
            *_counts(found),
            str(found["repeated_without_doubt"]),
        )
    console.print(table)
    console.print()


def _show_crons(console: Console, found: dict[str, Any]) -> None:
    lateness = _table("crons at one minute", "p50 ms", "p99 ms", "max ms", "lost", "repeated", "early", "over after s")
    for name, title in (("spread", "spread over 30 s"), ("at_once", "not spread")):
        part = found[name]
        row = [*_times(part["lateness_ms"]), *_counts(part), f"{part['last_after_seconds'] or 0:.1f}"]
        lateness.add_row(f"{part['called']:,} {title}", *row)
    console.print(lateness)
    console.print()
    before, used = found["placed_before_due_seconds"], found["cpu_seconds_per_1000"]
    table = _table(f"{found['crons']:,} crons", "")
    for name, text in (
        ("created a second", f"{found['created_per_second']:,.0f}"),
        ("created and expanded a second", f"{found['expanded_per_second']:,.0f}"),
        ("the last one expanded after its creation, s", f"{found['expanded_after_creation_seconds']:.1f}"),
        ("the last fire placed before it was due, s", f"{min(before['spread'] or 0, before['at_once'] or 0):.1f}"),
        ("CPU seconds per 1,000", ", ".join(f"{name} {seconds:.3f}" for name, seconds in used.items())),
        ("MiB of a node before, at most", ", ".join(f"{low} {high}" for low, high in found["memory_mb"].values())),
    ):
        table.add_row(name, text)
    console.print(table)
    console.print()


def _show_soak(console: Console, found: dict[str, Any]) -> None:
    columns = ("p50 ms", "p99 ms", "max ms", "latest first call ms", *_COUNTED)
    times = _table(f"{found['seconds']:,.0f} s, every node restarted", *columns)
    latest = f"{found['latest_ms'] or 0:,.1f}"
    times.add_row(f"{found['created']:,} calls", *_times(found["lateness_ms"]), latest, *_counts(found))
    console.print(times)
    print(f"The books: {', '.join(f'{count:,} {name}' for name, count in found['books'].items())}.")
    for one in found["restarts"]:
        print(f"{one['name']} ended after {one['stopped_seconds']} s, was ready again {one['ready_seconds']} s later.")
    memory = _table("MiB", "before the restarts, first", "last", "after them, first", "last")
    for name, sizes in found["memory_mb"].items():
        memory.add_row(name, *map(str, sizes))
    console.print(memory)
    for fault in found["faults"]:
        print(f"SOAK FAILED: {fault}")
    console.print()


def _show_idle(console: Console, found: dict[str, Any]) -> None:
    table = _table("idle pollers on three nodes", "")
    for name, text in (
        ("pollers", f"{found['pollers']:,}"),
        ("all owned after the start, s", f"{found['first_owned_seconds']:.1f}"),
        ("cores used, the busiest node", f"{found['cores_a_node']:.3f}"),
        ("cores used by Cassandra", f"{found['cores_cassandra']:.3f}"),
        ("requests a second", f"{found['requests_per_second']:,.0f}"),
        ("moved when one node was killed", f"{found['moved']:,}"),
        ("its death was decided after, s", f"{found['decided_after_seconds']:.1f}"),
        ("all owned again after that, s", f"{found['owned_after_decision_seconds']:.1f}"),
    ):
        table.add_row(name, text)
    console.print(table)
    console.print()


def _times(found: dict[str, Any]) -> list[str]:
    return [f"{found[key] or 0:,.1f}" for key in ("p50", "p99", "max")]


def _counts(found: Mapping[str, Any]) -> list[str]:
    return [str(found.get(key, "")) for key in ("lost", "repeated", "early")]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right", no_wrap=True)
    return table
