"""Rules about imports that import-linter cannot express: the standard library, the environment, threads, tasks."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from types import NoneType
from typing import Any, get_args, get_type_hints

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scheduler_service.api.services import ApiServices
from tests.architecture.sources import ROOMS, ROOT, dotted, imported_modules, room_modules
from tests.support.api import ApiHarness

SAYS_PURE = re.compile(r"\b[Pp]ure\b(?! ?-?Python)")
OUTSIDE_WORLD = {"asyncio", "concurrent", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}
MAY_BE_GIVEN = ("scheduler_service.usecases.", "scheduler_service.api.", "scheduler_service.runtime.")
MAY_READ_THE_ENVIRONMENT = "minutehand/"
MAY_MAKE_TASKS = "scheduler_service/runtime/"
MAY_USE_THREADS = "minutehand/"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_of(*requirements: str) -> set[str]:
    """The distributions' packages that one module imports."""
    names = {canonicalize_name(Requirement(one).name) for one in requirements}
    return {
        package
        for package, origins in packages_distributions().items()
        if not package.startswith("_") and names & {canonicalize_name(origin) for origin in origins}
    }


SERVER_LIBRARIES = packages_of(
    *SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"],
    *SETTINGS["project"]["optional-dependencies"]["local"],
)
"""Libraries that the server requires and the SDK does not."""
PURE_LIBRARIES = {"markupsafe"}
"""Those that only compute."""


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


def says_pure(name: str, tree: ast.Module) -> bool:
    """Whether a module's docstring calls it pure, or its package's first line calls the whole package pure."""
    package = room_modules()[f"{name.rpartition('/')[0]}/__init__.py"]
    if tree is not package and SAYS_PURE.search(ast.get_docstring(tree) or ""):
        return True
    return SAYS_PURE.search((ast.get_docstring(package) or "").partition("\n")[0]) is not None


def reached_outside(tree: ast.Module) -> set[str]:
    outside = OUTSIDE_WORLD | SERVER_LIBRARIES - PURE_LIBRARIES
    return {module for module in imported_modules(tree) if module.split(".")[0] in outside}


def test_what_says_that_it_is_pure_reaches_nothing_outside() -> None:
    pure = {name: tree for name, tree in room_modules().items() if says_pure(name, tree)}
    assert {name: reached for name, tree in pure.items() if (reached := reached_outside(tree))} == {}
    rooms = {name.split("/")[0] for name in pure}
    assert {"scheduler_service", "poller_cluster", "membership", "cql", "spark"} - rooms == set(), "nothing is found"


def test_only_the_front_door_reads_the_environment() -> None:
    readers = {
        name
        for name, tree in room_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and dotted(node) in {"os.environ", "os.getenv"}
    }
    assert {name for name in readers if not name.startswith(MAY_READ_THE_ENVIRONMENT)} == set()
    assert readers, "nothing is found"


def test_only_the_front_door_uses_threads() -> None:
    users = {
        name
        for name, tree in room_modules().items()
        if imported_modules(tree) & {"threading", "concurrent.futures", "multiprocessing"}
    }
    assert {name for name in users if not name.startswith(MAY_USE_THREADS)} == set()
    assert users, "nothing is found"


def test_tasks_are_made_by_their_owners_only() -> None:
    """ruff sees `asyncio.create_task`; this test sees the loop's own method."""
    makers = {
        name
        for name, tree in room_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and dotted(node.func).endswith(("loop.create_task", "loop().create_task", "loop.run_in_executor"))
    }
    assert {name for name in makers if not name.startswith(MAY_MAKE_TASKS)} == set()
    assert makers, "nothing is found"


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


def test_the_contract_of_the_sdk_forbids_all_that_the_server_declares() -> None:
    (contract,) = (one for one in SETTINGS["tool"]["importlinter"]["contracts"] if one["id"] == "sdk")
    forbidden = {name.partition(".")[0] for name in contract["forbidden_modules"]}
    assert forbidden == SERVER_LIBRARIES | set(ROOMS)


def test_every_room_is_shipped_linted_and_typed() -> None:
    rooms = {room for room in ROOMS if (ROOT / room).is_dir()}
    shipped = SETTINGS["tool"]["hatch"]["build"]["targets"]
    assert rooms <= set(shipped["wheel"]["packages"]) & set(shipped["sdist"]["only-include"])
    assert rooms == set(SETTINGS["tool"]["importlinter"]["root_packages"])
    assert rooms <= set(SETTINGS["tool"]["mypy"]["files"])


def _present(kind: Any) -> Any:
    """The type of what may be None."""
    return next((one for one in get_args(kind) if one is not NoneType), kind)


async def test_routes_are_given_use_cases_and_no_store() -> None:
    """`encryption` encrypts and decrypts what is shown; it reads nothing."""
    services, kinds = ApiHarness().services, get_type_hints(ApiServices)
    given = {name: _present(kind).__module__ for name, kind in kinds.items()}
    for noun in (name for name, module in given.copy().items() if module == ApiServices.__module__):
        verbs = vars(getattr(services, noun))
        given |= {f"{noun}.{verb}": type(getattr(one, "__self__", one)).__module__ for verb, one in verbs.items()}
    assert {"schedules.create", "clients.suspend"} <= given.keys()
    assert {room for room in MAY_BE_GIVEN if not any(module.startswith(room) for module in given.values())} == set()
    stores = {name for name, module in given.items() if not module.startswith(MAY_BE_GIVEN)}
    assert stores == {"encryption"}
