"""The pinned Helm, built from Go's module proxy by this machine's `go`: `python -m tests.support.helm_binary`.

It is built once per machine, into the shared download cache, under its version; this takes a few minutes on two cores.
Go checks every module against its checksum database. One process builds at a time; the others wait and use its result.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from minutehand.local.file_lock import FileLock
from minutehand.local.jars import cache_directory
from minutehand.local.progress import Progress, ProgressLines, silent

VERSION = "v3.19.5"
PACKAGE = "helm.sh/helm/v3/cmd/helm"
LEAST_GO = (1, 21)
"""From this version on `go` itself fetches a newer toolchain that a module requires."""
SHOWN_EVERY_SECONDS = 15.0
WAIT_SECONDS = 0.5


class HelmUnavailable(Exception):
    """Helm is not installed, and cannot be built. The message says why."""


def helm_path() -> Path:
    """Path of the pinned Helm, once it is built."""
    return cache_directory() / "helm" / VERSION / "helm"


def ensure_helm(progress: Progress = silent, *, sleep: Callable[[float], None] = time.sleep) -> Path:
    """The pinned Helm, built if need be. Raises HelmUnavailable."""
    helm = helm_path()
    lock = FileLock(cache_directory() / "helm.lock")
    while not helm.is_file():
        if not lock.try_acquire():
            progress(0, 0, "waiting for another program that builds helm")
            sleep(WAIT_SECONDS)
            continue
        try:
            if not helm.is_file():
                _build(_find_go(), helm, progress)
        finally:
            lock.release()
    return helm


def _find_go() -> str:
    go = shutil.which("go")
    if go is None:
        raise HelmUnavailable("helm is built by Go, and no go is on the PATH")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < LEAST_GO:
        raise HelmUnavailable(
            f"helm needs Go {'.'.join(map(str, LEAST_GO))} or newer, not {said.strip() or 'this one'}"
        )
    return go


def _build(go: str, helm: Path, progress: Progress) -> None:
    """Build in a directory beside the final one and rename it, so that a file that exists is complete."""
    scratch = helm.parent.with_suffix(".partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    flags = f"{os.environ.get('GOFLAGS', '')} -p=2".strip()
    environment = {**os.environ, "GOBIN": str(scratch), "GOFLAGS": flags}
    what = f"building helm {VERSION} with Go, once on this machine: some minutes"
    progress(0, 0, what)
    with (scratch / "log").open("w+", encoding="utf-8") as log:
        with subprocess.Popen(
            [go, "install", f"{PACKAGE}@{VERSION}"], cwd=scratch, env=environment, stdout=log, stderr=log
        ) as process:
            while True:
                try:
                    process.wait(SHOWN_EVERY_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    progress(0, 0, what)
                except BaseException:
                    process.kill()
                    raise
        log.seek(0)
        last_words = "".join(log.readlines()[-5:]).strip()
    if process.returncode != 0:
        shutil.rmtree(scratch, ignore_errors=True)
        raise HelmUnavailable(f"Go could not build helm: {last_words}")
    helm.parent.mkdir(parents=True, exist_ok=True)
    (scratch / "helm").replace(helm)
    shutil.rmtree(scratch, ignore_errors=True)


def main() -> int:
    try:
        print(ensure_helm(ProgressLines()))
    except HelmUnavailable as error:
        print(f"There will be no helm: {error}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
