"""`python -m minutehand.local.lock`: resolve every root of `jgo.lock.toml` again and write the file.

Needs the network. Everything is downloaded again, so that nothing in a cache gets into the lock; compare the result
with the committed file before trusting it.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from minutehand.local.errors import RepositoryUnreachable
from minutehand.local.jars import sha256_of
from minutehand.local.lock_file import LOCK_FILE, Jar, JarSet, read_sets, render_lock
from minutehand.local.maven import FetchFailed, MavenRepository


def lock_again(known: JarSet, repository: MavenRepository) -> JarSet:
    """Resolve and download the set's root, and describe every jar. Raises `FetchFailed`."""
    with tempfile.TemporaryDirectory(prefix="minutehand-lock-") as scratch:
        directory = Path(scratch)
        jars = (describe(path, directory) for path in repository.resolve(known.root, directory))
        return replace(known, jars=tuple(sorted(jar for jar in jars if jar.artifact not in known.provided)))


def describe(path: Path, directory: Path) -> Jar:
    """The jar that lies at `path` in the Maven repository `directory`."""
    *group, artifact, version, filename = path.relative_to(directory).parts
    stem = filename.removesuffix(".jar").removeprefix(f"{artifact}-{version}")
    return Jar(
        group=".".join(group),
        artifact=artifact,
        version=version,
        classifier=stem.removeprefix("-"),
        size=path.stat().st_size,
        sha256=sha256_of(path),
    )


def main() -> int:
    """Write the lock; 1 with a sentence on stderr when that is not possible."""
    repository = MavenRepository.from_environment()
    try:
        sets = [lock_again(known, repository) for known in read_sets()]
    except FetchFailed as error:
        print(RepositoryUnreachable(repository=repository.name, reason=str(error)), file=sys.stderr)
        return 1
    LOCK_FILE.write_text(render_lock(sets), encoding="utf-8")
    for one in sets:
        megabytes = sum(jar.size for jar in one.jars) / 1e6
        print(f"{one.name}: {len(one.jars)} jars, {megabytes:.1f} MB, from {one.root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
