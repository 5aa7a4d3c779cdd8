"""How many sockets this process can afford: every attempt and every kept connection takes a file descriptor."""

import resource

RESERVE = 256
"""Descriptors left to the rest of the process: storage, its own server, files, look-ups."""
FEWEST = 16
"""Tried even where the limit leaves less."""


def affordable_sockets(wanted: int) -> int:
    """At most `wanted`. Raises this process's soft limit of descriptors as far as that takes and the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + RESERVE
    if soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):
            pass
    return max(min(wanted, soft - RESERVE), FEWEST)
