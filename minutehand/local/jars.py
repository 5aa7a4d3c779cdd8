"""The jars of a lock file, on this machine's disk, verified.

The cache (`~/.cache/minutehand`, or `MINUTEHAND_CACHE_DIR`) has the layout of a Maven repository under `maven/`. A jar
is renamed to its final name after its sha256 was found right, so a visible jar is complete. One process downloads at a
time (a file lock); the others wait, and find the work done.

Every jar is hashed at every start, so a replaced jar is never run, whatever its size and times: hashing the Cassandra
set, 69 MB, takes 0.05 s. A wrong jar is downloaded again.
"""

import errno
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from minutehand.local.errors import DiskFull, JarMismatch, RepositoryUnreachable
from minutehand.local.file_lock import FileLock
from minutehand.local.lock_file import Jar, JarSet
from minutehand.local.maven import FetchFailed, Repository
from minutehand.local.progress import Progress, silent

CACHE_VARIABLE = "MINUTEHAND_CACHE_DIR"
ATTEMPTS = 3
PARALLEL_DOWNLOADS = 4
DOWNLOAD_LOOK_SECONDS = 0.5
"""How often a process looks again while another one downloads."""


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory that keeps downloads between starts."""
    named = environment.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "minutehand"


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class JarStore:
    """The cache of one directory, filled from one repository."""

    def __init__(self, directory: Path, repository: Repository, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._directory = directory
        self._repository = repository
        self._sleep = sleep

    def ensure(self, jar_set: JarSet, progress: Progress = silent) -> list[Path]:
        """The paths of all jars of the set, in the set's order, each present and of the locked content.

        Downloads what is missing or wrong. Raises `RepositoryUnreachable`, `JarMismatch` or `DiskFull`; what was
        downloaded by then is kept.
        """
        if not all(map(self._is_right, jar_set.jars)):
            try:
                self._fill(jar_set, progress)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                needed_mb = sum(jar.size for jar in jar_set.jars) // 1_000_000 + 1
                raise DiskFull(directory=self._directory, available_mb=None, needed_mb=needed_mb) from error
        return [self._path(jar) for jar in jar_set.jars]

    def _path(self, jar: Jar) -> Path:
        return self._directory / "maven" / jar.path

    def _fill(self, jar_set: JarSet, progress: Progress) -> None:
        lock = FileLock(self._directory / "download.lock")
        while not lock.try_acquire():
            progress(0, 0, "waiting for another program that downloads the same files")
            self._sleep(DOWNLOAD_LOOK_SECONDS)
        try:
            missing = [jar for jar in jar_set.jars if not self._is_right(jar)]
            if missing:
                self._download(missing, f"downloading {jar_set.name} {jar_set.version}", progress)
        finally:
            lock.release()

    def _is_right(self, jar: Jar) -> bool:
        path = self._path(jar)
        return path.is_file() and sha256_of(path) == jar.sha256

    def _download(self, jars: list[Jar], what: str, progress: Progress) -> None:
        total = sum(jar.size for jar in jars)
        meter = _Meter(lambda done: progress(done, total, what))
        scratch = self._directory / "partial"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        progress(0, total, what)
        # Largest first, so that the last download to end is a small one.
        ordered = sorted(jars, key=lambda jar: -jar.size)
        hopeless = threading.Event()
        pool = ThreadPoolExecutor(PARALLEL_DOWNLOADS, thread_name_prefix="jars")
        try:
            work = [pool.submit(self._fetch, jar, scratch, meter, hopeless) for jar in ordered]
            done, _ = wait(work, return_when=FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            hopeless.set()
            pool.shutdown(cancel_futures=True)
            shutil.rmtree(scratch, ignore_errors=True)

    def _fetch(self, jar: Jar, scratch: Path, meter: "_Meter", hopeless: threading.Event) -> None:
        """Fetch with repeats, until another jar has failed for good (`hopeless`), and with it the whole set."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._fetch_once(jar, scratch, meter)
            except (JarMismatch, RepositoryUnreachable):
                if attempt == ATTEMPTS or hopeless.is_set():
                    hopeless.set()
                    raise
            self._sleep(float(attempt))

    def _fetch_once(self, jar: Jar, scratch: Path, meter: "_Meter") -> None:
        received = 0

        def on_bytes(size: int) -> None:
            nonlocal received
            received += size
            meter.add(size)

        try:
            path = self._repository.fetch(jar, scratch, on_bytes)
            if sha256_of(path) != jar.sha256:
                raise JarMismatch(jar=jar.filename, repository=self._repository.name)
        except FetchFailed as error:
            meter.add(-received)
            raise RepositoryUnreachable(repository=self._repository.name, reason=str(error)) from error
        except JarMismatch:
            meter.add(-received)
            raise
        meter.add(jar.size - received)
        final = self._path(jar)
        final.parent.mkdir(parents=True, exist_ok=True)
        path.replace(final)


class _Meter:
    """Sums the bytes that several threads received."""

    def __init__(self, show: Callable[[int], None]) -> None:
        self._show = show
        self._done = 0
        self._guard = threading.Lock()

    def add(self, size: int) -> None:
        with self._guard:
            self._done += size
            self._show(self._done)
