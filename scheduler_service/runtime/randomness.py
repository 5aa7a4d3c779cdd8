"""Randomness: ids, jitter, secrets. Given through constructors so that a simulation can replay a run from its seed."""

import os
import random
import secrets
import uuid
from typing import Protocol


class Randomness(Protocol):
    """A source of random values."""

    def bits(self, count: int) -> int:
        """A uniform integer of `count` bits. Not for secrets."""

    def fraction(self) -> float:
        """Uniform in [0, 1)."""

    def uuid4(self) -> uuid.UUID:
        """A random UUID, version 4."""

    def secret_bytes(self, count: int) -> bytes:
        """Bytes fit for keys and tokens."""


class SystemRandomness:
    """Seeded from the system at construction; secrets come from the system itself. Not shared over a fork."""

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(32))
        self.bits = self._random.getrandbits
        self.fraction = self._random.random

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def secret_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)
