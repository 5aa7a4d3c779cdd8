"""The cache of jars: downloads, checks, and messages about failures."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from minutehand.local.errors import DiskFull, JarMismatch, RepositoryUnreachable
from minutehand.local.file_lock import FileLock
from minutehand.local.jars import ATTEMPTS, JarStore, cache_directory
from minutehand.local.lock_file import Jar, JarSet
from minutehand.local.maven import FetchFailed

CONTENTS = {"alpha": b"a" * 1000, "beta": b"b" * 500, "gamma": b"c" * 10}


class FakeRepository:
    """Serves `contents` after `failures` failed downloads, and counts the downloads."""

    name = "fake.example"

    def __init__(self, contents: dict[str, bytes] | None = None, *, failures: int = 0, full: bool = False) -> None:
        self.contents = dict(contents or CONTENTS)
        self.failures = failures
        self.full = full
        self.fetched: list[str] = []
        self._guard = threading.Lock()

    def fetch(self, jar: Jar, directory: Path, on_bytes: Callable[[int], None]) -> Path:
        with self._guard:
            self.fetched.append(jar.artifact)
            failing = self.failures > 0
            self.failures -= 1
        content = self.contents[jar.artifact]
        path = directory / jar.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[: len(content) // 2] if failing else content)
        on_bytes(len(content) // 2)
        if failing:
            raise FetchFailed("the connection broke")
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        on_bytes(len(content) - len(content) // 2)
        return path


def jar(artifact: str, classifier: str = "") -> Jar:
    content = CONTENTS[artifact]
    return Jar("org.example", artifact, "1.0", classifier, len(content), hashlib.sha256(content).hexdigest())


JARS = JarSet("thing", "org.example:alpha:1.0", tuple(jar(name) for name in CONTENTS))


def store(directory: Path, repository: FakeRepository, sleep: Callable[[float], None] = lambda _: None) -> JarStore:
    return JarStore(directory, repository, sleep=sleep)


def test_downloads_once_in_the_layout_of_a_maven_repository(tmp_path: Path) -> None:
    repository = FakeRepository()
    paths = store(tmp_path, repository).ensure(JARS)
    assert [path.read_bytes() for path in paths] == list(CONTENTS.values())
    assert paths[0] == tmp_path / "maven/org/example/alpha/1.0/alpha-1.0.jar"
    assert sorted(repository.fetched) == sorted(CONTENTS)
    assert not (tmp_path / "partial").exists()

    again = FakeRepository()
    assert store(tmp_path, again).ensure(JARS) == paths
    assert again.fetched == []


@pytest.mark.parametrize("content", [b"x" * 1000, b"a" * 999, b""], ids=["same size", "shorter", "empty"])
def test_a_jar_that_changed_is_fetched_again(tmp_path: Path, content: bytes) -> None:
    victim = store(tmp_path, FakeRepository()).ensure(JARS)[0]
    status = victim.stat()
    victim.write_bytes(content)
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
    repository = FakeRepository()
    store(tmp_path, repository).ensure(JARS)
    assert repository.fetched == ["alpha"]
    assert victim.read_bytes() == CONTENTS["alpha"]


def test_a_touched_jar_of_the_right_content_is_kept(tmp_path: Path) -> None:
    victim = store(tmp_path, FakeRepository()).ensure(JARS)[0]
    os.utime(victim, ns=(1, 1))
    repository = FakeRepository()
    store(tmp_path, repository).ensure(JARS)
    assert repository.fetched == []


def test_a_lock_with_another_sum_is_not_satisfied_by_the_old_jar(tmp_path: Path) -> None:
    store(tmp_path, FakeRepository()).ensure(JARS)
    newer = b"A" * 1000
    changed = Jar("org.example", "alpha", "1.0", "", 1000, hashlib.sha256(newer).hexdigest())
    repository = FakeRepository({"alpha": newer})
    (path,) = store(tmp_path, repository).ensure(JarSet("thing", JARS.root, (changed,)))
    assert path.read_bytes() == newer


def test_a_broken_download_is_repeated_after_a_pause(tmp_path: Path) -> None:
    pauses: list[float] = []
    only = JarSet("thing", JARS.root, JARS.jars[:1])
    repository = FakeRepository(failures=ATTEMPTS - 1)
    (path,) = store(tmp_path, repository, pauses.append).ensure(only)
    assert path.read_bytes() == CONTENTS["alpha"]
    assert len(repository.fetched) == ATTEMPTS
    assert pauses == [1.0, 2.0]


def test_an_unreachable_repository_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RepositoryUnreachable) as caught:
        store(tmp_path, FakeRepository(failures=100)).ensure(JARS)
    assert "fake.example" in str(caught.value)
    assert "the connection broke" in str(caught.value)
    assert "MINUTEHAND_MAVEN_REPOSITORY" in caught.value.remedy
    assert list((tmp_path / "maven").rglob("*.jar")) == []


def test_a_jar_with_the_wrong_sum_never_reaches_the_cache(tmp_path: Path) -> None:
    repository = FakeRepository({**CONTENTS, "beta": b"evil" * 125})
    with pytest.raises(JarMismatch, match=r"beta-1\.0\.jar"):
        store(tmp_path, repository).ensure(JARS)
    assert repository.fetched.count("beta") == ATTEMPTS
    assert not (tmp_path / "maven" / JARS.jars[1].path).exists()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match="too little room"):
        store(tmp_path, FakeRepository(full=True)).ensure(JARS)


def test_progress_ends_at_the_whole_in_spite_of_repeats(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    repository = FakeRepository(failures=2)
    store(tmp_path, repository).ensure(JARS, lambda done, total, what: seen.append((done, total, what)))
    assert seen[0] == (0, 1510, "downloading thing 1.0")
    assert seen[-1] == (1510, 1510, "downloading thing 1.0")
    assert all(0 <= done <= total for done, total, _ in seen)


def test_waits_for_another_process_and_finds_its_work_done(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "download.lock")
    assert lock.try_acquire()
    seen: list[str] = []

    def other_finishes(seconds: float) -> None:
        for one in JARS.jars:
            path = tmp_path / "maven" / one.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(CONTENTS[one.artifact])
        lock.release()

    repository = FakeRepository()
    store(tmp_path, repository, other_finishes).ensure(JARS, lambda done, total, what: seen.append(what))
    assert seen == ["waiting for another program that downloads the same files"]
    assert repository.fetched == []


def test_the_cache_directory_comes_from_the_environment() -> None:
    assert cache_directory({"MINUTEHAND_CACHE_DIR": "/srv/cache"}) == Path("/srv/cache")
    assert cache_directory({}) == Path.home() / ".cache" / "minutehand"
