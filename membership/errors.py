"""The root of every error that Minutehand raises on purpose, and the one that membership itself needs."""


class MinutehandError(Exception):
    """The root. Messages tell the reader what to do."""


class StoreUnavailable(MinutehandError):
    """The store gave no answer to a read or a plain write. The write may have taken effect."""


class SettingsInvalid(MinutehandError):
    """Settings that contradict each other. The message names both and says what to change."""


class IncarnationOver(MinutehandError):
    """This process may no longer act as its incarnation, or never could begin it."""
