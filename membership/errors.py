"""The root of every error that Minutehand raises on purpose, and the one that membership itself needs."""


class MinutehandError(Exception):
    """Messages are for the reader who must act."""


class StoreUnavailable(MinutehandError):
    """The store gave no answer to a read or a plain write. A write may have taken effect all the same."""


class SettingsInvalid(MinutehandError):
    """Settings that contradict each other. The message names both and says what to change."""


class IncarnationOver(MinutehandError):
    """This process may no longer act as the incarnation it began, or never could begin it."""
