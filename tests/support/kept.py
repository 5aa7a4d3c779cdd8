"""Objects that a test process keeps until its end, without what the garbage collector would spend on them.

It looks at all live objects each time their number has grown by a quarter: at modules and test items with every one of
them, although no pass ever frees any.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def made_to_stay() -> Iterator[None]:
    """What is made within is not looked at by the garbage collector, neither now nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
