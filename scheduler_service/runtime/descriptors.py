"""How many sockets this process may open: every attempt and every kept connection takes a file descriptor."""

import resource

DESCRIPTORS_RESERVED = 256
"""Descriptors left to the rest of the process: storage, its own server, files, look-ups."""
FEWEST = 16
"""Granted even if the limit leaves less."""


def affordable_sockets(wanted: int) -> int:
    """At most `wanted`. First raises this process's soft limit of descriptors as far as needed and permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + DESCRIPTORS_RESERVED
    if soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):
            pass
    return max(min(wanted, soft - DESCRIPTORS_RESERVED), FEWEST)
