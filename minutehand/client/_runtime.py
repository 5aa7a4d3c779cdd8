"""Time and randomness: the only module of the SDK that takes them from the system."""

import asyncio
import os
import random
import time
import uuid
from typing import Protocol


class Runtime(Protocol):
    """Time and randomness as retries need them; a port for tests."""

    def monotonic(self) -> float:
        """Seconds."""

    def wall(self) -> float:
        """Unix seconds by this machine's clock."""

    def fraction(self) -> float:
        """Uniform in [0, 1)."""

    def new_key(self) -> str:
        """A new idempotency key."""

    def nonce(self) -> str:
        """The unique part of a token: 24 hexadecimal digits."""

    def sleep(self, seconds: float) -> None: ...

    async def sleep_async(self, seconds: float) -> None: ...


class SystemRuntime:
    """The system's time and randomness."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def fraction(self) -> float:
        return random.random()  # noqa: S311

    def new_key(self) -> str:
        return str(uuid.uuid4())

    def nonce(self) -> str:
        # Not `random`: a forked process would draw the same as its parent.
        return os.urandom(12).hex()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
