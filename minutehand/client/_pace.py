"""Time and chance: the only place of the SDK that asks the system for them."""

import asyncio
import os
import random
import time
import uuid
from typing import Protocol


class Pace(Protocol):
    """Time and chance, as retries need them. For tests; nobody else has to name one."""

    def monotonic(self) -> float:
        """Seconds."""

    def wall(self) -> float:
        """Seconds since 1970, as this machine has them."""

    def fraction(self) -> float:
        """Uniform in [0, 1)."""

    def new_key(self) -> str:
        """An idempotency key that nobody has used."""

    def nonce(self) -> str:
        """What tells a token from all others: 24 hexadecimal digits."""

    def sleep(self, seconds: float) -> None: ...

    async def sleep_async(self, seconds: float) -> None: ...


class SystemPace:
    """The real ones."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def fraction(self) -> float:
        return random.random()  # noqa: S311

    def new_key(self) -> str:
        return str(uuid.uuid4())

    def nonce(self) -> str:
        # From the system: what a forked process draws differs from what its parent does.
        return os.urandom(12).hex()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
