"""What a rule may be refused for."""

from membership.errors import MinutehandError


class InvalidRule(MinutehandError):
    """A rule that can't be followed. `field` is the cron's field to change, `reason` says why and what would do."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
