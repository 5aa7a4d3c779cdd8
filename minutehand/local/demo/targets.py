"""The targets of a demo: the file that says what its calls may go to beside HTTP."""

from pathlib import Path

from membership.errors import SettingsInvalid
from minutehand.errors import LocalError
from poller_cluster.delivery.settings import TargetSettings
from poller_cluster.delivery.targets.kinds import read_kinds


def read_targets(own: Path) -> str:
    """The text of the user's own file. Raises LocalError for one that an API would not start with."""
    check_targets(own, hint="Correct the file of --targets.")
    return own.read_text(encoding="utf-8")


def check_targets(file: Path, *, hint: str) -> None:
    """Raise LocalError for a file that an API would not start with."""
    try:
        read_kinds(TargetSettings(file=str(file)))
    except SettingsInvalid as error:
        raise LocalError(str(error), hint) from None
