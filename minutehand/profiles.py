"""Profiles: addresses of APIs, each with a key, under names, in a file that only its user may read.

$XDG_CONFIG_HOME/minutehand/profiles.json    ~/.config where the variable is not set
{"demo": {"url": "http://127.0.0.1:8080", "key": "…", "ca_file": null}}
"""

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from minutehand.errors import LocalError

DEFAULT_PROFILE: Final = "default"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to call, and as whom. `ca_file`: PEM file of the authorities that signed the API's certificate."""

    url: str
    key: str
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"Profile(url={self.url!r})"


def profiles_file() -> Path:
    """Where profiles are kept."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "minutehand" / "profiles.json"


def read_profiles() -> dict[str, Profile]:
    """All profiles by their names. Raises LocalError for a file that others may read, or that holds something else."""
    file = profiles_file()
    try:
        with file.open("rb") as opened:
            mode, content = os.fstat(opened.fileno()).st_mode, opened.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LocalError(f"The profiles in {file} can't be read ({error.strerror}).", "Mend the file's mode.") from None
    if mode & _OTHERS:
        raise LocalError(f"Others than you may read the keys in {file}.", f"chmod 600 {file}")
    try:
        return msgspec.json.decode(content, type=dict[str, Profile])
    except msgspec.MsgspecError:
        raise LocalError(f"{file} holds no profiles.", "Delete it, and use `minutehand login`.") from None


def write_profile(name: str, profile: Profile) -> None:
    """Add a profile, or replace it. Raises LocalError, OSError."""
    _write({**read_profiles(), name: profile})


def delete_profile(name: str) -> bool:
    """Forget a profile; false where there was none. Raises LocalError, OSError."""
    profiles = read_profiles()
    if profiles.pop(name, None) is None:
        return False
    _write(profiles)
    return True


def _write(profiles: dict[str, Profile]) -> None:
    file = profiles_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    encoded = msgspec.json.encode(dict(sorted(profiles.items())))
    write_private(file, msgspec.json.format(encoded, indent=2).decode() + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically; only its owner may read it."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    # O_EXCL: an existing file would keep its owner and mode, and a link would be followed.
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    scratch.replace(path)
