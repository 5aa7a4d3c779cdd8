"""The base of all errors about this machine."""


class LocalError(Exception):
    """Something on this machine prevents the operation. A retry does not help before that is changed."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
