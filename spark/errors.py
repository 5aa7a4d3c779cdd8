"""Why a job does not do what it was asked for."""


class JobRefused(Exception):
    """What was asked for can't be done; the message says why and what to do. Nothing was written, or what was written
    is not taken for whole."""
