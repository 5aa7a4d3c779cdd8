"""A Maven repository, accessed with jgo's pure-Python resolver: no Maven, no Java needed.

jgo knows the repository's address; `MINUTEHAND_MAVEN_REPOSITORY` overrides it. jgo verifies little, so it only writes
to a scratch directory: `jars.py` verifies the files and moves them into place.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from minutehand.local.errors import LocalExtraMissing
from minutehand.local.lock_file import Jar

REPOSITORY_VARIABLE = "MINUTEHAND_MAVEN_REPOSITORY"
REPOSITORY_TIMEOUT_SECONDS = 30


class FetchFailed(Exception):
    """One download failed; `str` is a short reason without addresses or secrets. Worth a retry."""


class Repository(Protocol):
    """A source of jars."""

    @property
    def name(self) -> str:
        """Its name in messages: never with credentials."""

    def fetch(self, jar: Jar, directory: Path, on_bytes: Callable[[int], None]) -> Path:
        """Download `jar` below `directory` and answer its path; `on_bytes` gets the size of each piece.

        Called from several threads at once, never twice at once for one jar. Raises `FetchFailed`, LocalError.
        """


class MavenRepository:
    """The repository at `url`, or jgo's own choice when it is None."""

    def __init__(self, url: str | None = None) -> None:
        self._url = url.rstrip("/") if url else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "MavenRepository":
        return cls(environment.get(REPOSITORY_VARIABLE) or None)

    @property
    def name(self) -> str:
        if self._url is None:
            return "Maven Central"
        parts = urlsplit(self._url)
        return parts.hostname or "the named repository"

    def fetch(self, jar: Jar, directory: Path, on_bytes: Callable[[int], None]) -> Path:
        context = self._context(directory, on_bytes)
        artifact = context.create_dependency(jar.coordinate).artifact
        (directory / jar.path).unlink(missing_ok=True)
        with _failing_as(f"it lacks {jar.filename}"):
            path: Path = artifact.resolve()
        return path

    def resolve(self, root: str, directory: Path) -> list[Path]:
        """Download `root` and its runtime dependencies below `directory`; answer the jars' paths."""
        context = self._context(directory, lambda size: None)
        with _failing_as(f"it lacks files that {root} needs"):
            inputs, transitive = context.resolver.resolve([context.create_dependency(root)])
            return [one.artifact.resolve() for one in [*inputs, *transitive]]

    def _context(self, directory: Path, on_bytes: Callable[[int], None]) -> Any:
        try:
            from jgo.maven import MavenContext, ProfileConstraints, PythonResolver
        except ImportError as error:
            raise LocalExtraMissing("The package jgo, which downloads jars, is missing.") from error

        @contextmanager
        def listen(filename: str, size: int) -> Iterator[Callable[[int], None]]:
            yield on_bytes

        # Pinned to one platform, so that every machine writes the same lock; it holds the jars of all platforms.
        constraints = ProfileConstraints(os_name="Linux", os_family="unix", os_arch="amd64")
        return MavenContext(
            resolver=PythonResolver(constraints, progress_callback=listen),
            repo_cache=directory,
            remote_repos={"named": self._url} if self._url else None,
            timeout=REPOSITORY_TIMEOUT_SECONDS,
        )


@contextmanager
def _failing_as(refused: str) -> Iterator[None]:
    """Map jgo's errors to `FetchFailed`; `refused` is the reason when the repository answered, but not with the
    artifact."""
    import requests

    try:
        yield
    except requests.exceptions.RequestException as error:
        raise FetchFailed(_reason(error)) from error
    except RuntimeError as error:
        raise FetchFailed(refused) from error


def _reason(error: Exception) -> str:
    """The reason of a failed request in words; the exception's own text holds addresses."""
    import requests

    text = str(error)
    if "NameResolution" in text or "getaddrinfo" in text:
        return "its name can't be resolved"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted"
    if isinstance(error, requests.exceptions.Timeout):
        return "it does not answer in time"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy refuses"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke"
    return "it can't be reached"
