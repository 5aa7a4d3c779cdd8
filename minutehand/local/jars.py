"""The jars of a lock, on this machine's disk, checked.

The cache (`~/.cache/minutehand`, or `MINUTEHAND_CACHE_DIR`) has the layout of a Maven repository under `maven/`. A jar
gets its final name only after its sha256 was found right, by a rename, so whoever sees a file sees all of it. One
process downloads at a time (a file lock); the others wait, and find the work done.

A stamp remembers size and modification time of every jar that was hashed. While both are as they were, a jar is not
hashed again: that is what makes a second start fast. A jar that changed is hashed, and replaced if it is wrong.
"""

import errno
import hashlib
import json
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
WAIT_SECONDS = 0.5
"""How often a process that waits for another's download looks again."""


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where downloads are kept between starts."""
    named = environment.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "minutehand"


def sha256_of(path: Path) -> str:
    """In hex, of the whole file."""
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
        downloaded until then stays and is not downloaded again.
        """
        stamp = _Stamp(self._directory / f"checked-{jar_set.name}.json")
        if not all(stamp.vouches_for(jar, self._path(jar)) for jar in jar_set.jars):
            try:
                self._fill(jar_set, stamp, progress)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                needed_mb = sum(jar.size for jar in jar_set.jars) // 1_000_000 + 1
                raise DiskFull(directory=self._directory, available_mb=None, needed_mb=needed_mb) from error
        return [self._path(jar) for jar in jar_set.jars]

    def _path(self, jar: Jar) -> Path:
        return self._directory / "maven" / jar.path

    def _fill(self, jar_set: JarSet, stamp: "_Stamp", progress: Progress) -> None:
        lock = FileLock(self._directory / "download.lock")
        while not lock.try_acquire():
            progress(0, 0, "waiting for another program that downloads the same files")
            self._sleep(WAIT_SECONDS)
        try:
            stamp.load()
            missing = [jar for jar in jar_set.jars if not self._is_right(jar, stamp)]
            if missing:
                self._download(missing, f"downloading {jar_set.name} {jar_set.version}", stamp, progress)
            stamp.save()
        finally:
            lock.release()

    def _is_right(self, jar: Jar, stamp: "_Stamp") -> bool:
        path = self._path(jar)
        if stamp.vouches_for(jar, path):
            return True
        if not path.is_file() or sha256_of(path) != jar.sha256:
            return False
        stamp.note(jar, path)
        return True

    def _download(self, jars: list[Jar], what: str, stamp: "_Stamp", progress: Progress) -> None:
        total = sum(jar.size for jar in jars)
        meter = _Meter(lambda done: progress(done, total, what))
        scratch = self._directory / "partial"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        progress(0, total, what)
        # The largest first, so that the last one to end is a small one.
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
        for jar in jars:
            stamp.note(jar, self._path(jar))

    def _fetch(self, jar: Jar, scratch: Path, meter: "_Meter", hopeless: threading.Event) -> None:
        """Fetch with repeats, until another jar turned out `hopeless`: then the whole set is."""
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
    """Adds up what several threads received."""

    def __init__(self, show: Callable[[int], None]) -> None:
        self._show = show
        self._done = 0
        self._guard = threading.Lock()

    def add(self, size: int) -> None:
        with self._guard:
            self._done += size
            self._show(self._done)


class _Stamp:
    """Which files were hashed, with what result, and how they looked then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, list[object]] = {}
        self.load()

    def load(self) -> None:
        """Read it anew; a missing or damaged stamp vouches for nothing."""
        try:
            seen = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            seen = {}
        self._seen = seen if isinstance(seen, dict) else {}

    def save(self) -> None:
        scratch = self._path.with_suffix(".new")
        scratch.write_text(json.dumps(self._seen, indent=0), encoding="utf-8")
        scratch.replace(self._path)

    def note(self, jar: Jar, path: Path) -> None:
        """`path` was found to hold `jar`."""
        self._seen[str(jar.path)] = _look(path, jar.sha256)

    def vouches_for(self, jar: Jar, path: Path) -> bool:
        """Whether `path` was hashed with `jar`'s result and looks as it did then."""
        try:
            return self._seen.get(str(jar.path)) == _look(path, jar.sha256)
        except OSError:
            return False


def _look(path: Path, sha256: str) -> list[object]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, sha256]
