"""What all errors about this machine have in common."""


class LocalError(Exception):
    """Something on this machine is in the way. Not worth retrying unchanged."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
