"""crontab: lines of five fields or a nickname and a command, as cronie reads them. Pure.

`CRON_TZ` counts for the lines below it. Of other variables only the names are told: commands are not run here, so the
calls do not have them.
"""

import hashlib
import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Final

from minutehand.importing.entries import Entry, Fault, Found

_VARIABLE: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTES: Final = ("'", '"')
_PROGRAM: Final = re.compile(r"[a-z0-9_-]{1,30}")
_INPUT: Final = re.compile(r"(?<!\\)%")


def read_crontab(text: str, *, timezone: str, with_user: bool = False) -> Found:
    """`timezone`: of the machine. `with_user`: the sixth field names a user, as in /etc/crontab."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    seen: Counter[str] = Counter()
    variables: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        place, stripped = f"line {number}", line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        assigned = _VARIABLE.fullmatch(line)
        if assigned is not None:
            name, value = assigned.groups()
            if value[:1] in _QUOTES and value[-1:] == value[:1]:
                value = value[1:-1]
            if name == "CRON_TZ":
                timezone = value
            elif name not in variables:
                variables.append(name)
            continue
        # A leading - keeps cronie from logging the line.
        parts = stripped.removeprefix("-").split(None, 1 if stripped.startswith("@") else 5)
        if len(parts) != (2 if stripped.startswith("@") else 6):
            faults.append(Fault(place, "has no command after its five fields"))
            continue
        rule, command = " ".join(parts[:-1]), parts[-1]
        payload = {"source": "crontab"}
        if with_user:
            user, *commands = command.split(None, 1)
            payload["user"], command = user, "".join(commands)
        command, *given = _INPUT.split(command.strip(), maxsplit=1)
        if not command:
            faults.append(Fault(place, "has no command after its user"))
            continue
        payload["command"] = command.replace("\\%", "%").strip()
        if given:
            payload["stdin"] = _INPUT.sub("\n", given[0]).replace("\\%", "%")
        seen[stripped] += 1
        entries.append(
            Entry(
                place=place,
                name=_name(payload["command"], f"{timezone} {stripped} {seen[stripped]}"),
                written=rule,
                expression=rule,
                timezone=timezone,
                payload=payload,
                notes=tuple(f"the variable {name} is not passed on" for name in variables),
            )
        )
    return Found(entries, faults)


def _name(command: str, line: str) -> str:
    """Lines have no names: the program, and a hash of the line, its zone, and how many equal ones are above it. The
    command's arguments may hold secrets, so they are no part of it."""
    program = _PROGRAM.match(PurePosixPath(command.split()[0]).name.lower())
    digest = hashlib.blake2b(line.encode(), digest_size=5).hexdigest()
    return digest if program is None else f"{program[0]}-{digest}"
