"""Converts texts and TOML values into typed fields of dataclasses, collecting every fault. Knows no setting by name."""

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from membership.errors import MinutehandError
from scheduler_service.runtime.file_secrets import FileSecret

PREFIX = "MINUTEHAND_"
FILE_SUFFIX = "_file"
NOT_SETTINGS = frozenset(
    {"CONFIG", "URL", "KEY", "CA_FILE", "CACHE_DIR", "MAVEN_REPOSITORY", "JAVA_HOME", "CASSANDRA_DATACENTER"}
)
"""Variables with the prefix that are not settings: the configuration file, what commands connect to, and what the
embedded servers and the tests read."""


class Fault(NamedTuple):
    """A place, and a sentence that says what to do."""

    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where} {self.detail}"


class ConfigurationInvalid(MinutehandError):
    """All faults of a configuration, one sentence each."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the configuration file, and the dataclass whose fields are its keys.

    Everything about a key is declared at its field: type, default, documentation (the string below), and whether it is
    a secret: then `repr` leaves it out, and it may come from a file.
    """

    name: str
    type: type[Any]

    def typed_keys(self) -> dict[str, Any]:
        """Names and types of the configurable fields, in order."""
        return {name: type_ for name, type_ in self._hints().items() if not is_dataclass(type_)}

    def inner(self) -> list[str]:
        """The fields that are settings themselves, each configured by the table of its name."""
        return [name for name, type_ in self._hints().items() if is_dataclass(type_)]

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset(one.name for one in fields(self.type) if not one.repr)

    def variable(self, name: str) -> str:
        """The environment variable of a key."""
        return f"{PREFIX}{self.name}_{name}".upper()

    def _hints(self) -> dict[str, Any]:
        hints = get_type_hints(self.type)
        return {one.name: hints[one.name] for one in fields(self.type)}


def read_table(table: Table, given: object, *, source: str, faults: list[Fault]) -> dict[str, Any]:
    """The fields that a TOML table gives, converted."""
    where = f"[{table.name}] in {source}"
    if not isinstance(given, dict):
        faults.append(Fault(where, f"must be a table: write [{table.name}] on a line of its own."))
        return {}
    keys, values = table.typed_keys(), {}
    for name, value in given.items():
        secret = name.removesuffix(FILE_SUFFIX)
        if name in keys:
            try:
                values[name] = _from_toml(value, keys[name])
            except ValueError as error:
                shown = "" if name in table.secrets else f", not {value!r}"
                faults.append(Fault(f"{table.name}.{name}", f"must be {error}{shown}."))
        elif secret != name and secret in table.secrets:
            if secret in given:
                faults.append(Fault(f"{table.name}.{secret}", f"and {name} are both given: leave one out."))
            elif (text := _secret(value, f"{table.name}.{name}", faults)) is not None:
                values[secret] = text
        else:
            faults.append(Fault(f"{table.name}.{name}", f"is not known: use one of {', '.join(keys)}."))
    return values


def read_environment(
    tables: Iterable[Table], environment: Mapping[str, str], faults: list[Fault]
) -> dict[str, dict[str, Any]]:
    """The fields that variables give, by table."""
    tables = list(tables)
    found: dict[str, dict[str, Any]] = {table.name: {} for table in tables}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable[len(PREFIX) :] in NOT_SETTINGS:
            continue
        # No table's name has an underscore, so the first one ends it.
        table_name, _, name = variable[len(PREFIX) :].lower().partition("_")
        table = next((one for one in tables if one.name == table_name), None)
        keys = {} if table is None else table.typed_keys()
        secret = name.removesuffix(FILE_SUFFIX)
        if table is None:
            faults.append(Fault(variable, "is not a known setting: see `minutehand config`."))
        elif name in keys:
            try:
                found[table.name][name] = _from_text(text, keys[name])
            except ValueError as error:
                faults.append(Fault(variable, f"must be {error}, not {text!r}."))
        elif secret != name and secret in table.secrets:
            if table.variable(secret) in environment:
                faults.append(Fault(variable, "and the variable without _FILE are both given: leave one out."))
            elif (value := _secret(text, variable, faults)) is not None:
                found[table.name][secret] = value
        else:
            faults.append(Fault(variable, f"is not a known setting: [{table.name}] has {', '.join(keys)}."))
    return found


def _secret(path: object, where: str, faults: list[Fault]) -> str | None:
    """The content of a file, stripped; it follows the file."""
    if not isinstance(path, str) or not path:
        faults.append(Fault(where, "must be the path of a file."))
        return None
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not UTF-8"
        faults.append(Fault(where, f"names {path}, which can't be read ({reason}): name a file that holds the secret."))
        return None
    if not text:
        faults.append(Fault(where, f"names {path}, which is empty: write the secret into it."))
        return None
    return FileSecret.read(path, setting=where)


def _without_none(type_: Any) -> tuple[Any, bool]:
    if get_origin(type_) in (Union, types.UnionType):
        others = [member for member in get_args(type_) if member is not type(None)]
        return others[0], True
    return type_, False


def _from_toml(value: Any, type_: Any) -> Any:
    """Raises ValueError that says what is expected."""
    plain, _ = _without_none(type_)
    if get_origin(plain) is tuple:
        item = get_args(plain)[0]
        if not isinstance(value, list):
            raise ValueError(f"a list, such as [{_EXAMPLES[item]}]")
        return tuple(_from_toml(one, item) for one in value)
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not plain:
        raise ValueError(_WORDS[plain])
    return value


def _from_text(text: str, type_: Any) -> Any:
    """Lists are separated by commas. An empty text is None where the field allows it, else an empty list or string."""
    plain, optional = _without_none(type_)
    text = text.strip()
    if not text and optional:
        return None
    if get_origin(plain) is tuple:
        item = get_args(plain)[0]
        return tuple(_from_text(one, item) for one in text.split(",") if one.strip())
    if plain is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(_WORDS[bool])
        return _BOOLEANS[text.lower()]
    try:
        return plain(text)
    except ValueError:
        raise ValueError(_WORDS[plain]) from None


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_EXAMPLES = {str: '"..."', int: "443"}
