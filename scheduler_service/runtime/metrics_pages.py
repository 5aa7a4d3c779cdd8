"""One page of metrics for several processes behind one port.

    process asked --Unix socket--> each of the others: its page
         `--one page: every series with the label `process` of the one that counts it

The series are not added up here: a process that is restarted begins again at 0, which a sum would hide from
Prometheus, and `rate` would then be wrong. PromQL's `sum` adds them, histograms included.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from scheduler_service.runtime.answering_socket import AnsweringSocket
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.metrics import PageMaker

PAGE_SECONDS: Final = 2.0
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def merged(pages: Mapping[str, bytes]) -> bytes:
    """One page of those of several processes, by their names: each family once, with its series of all of them."""
    heads: dict[str, list[str]] = {}
    series: dict[str, list[str]] = {}
    for process, page in pages.items():
        for family, head, samples in _families(page.decode().splitlines()):
            heads.setdefault(family, head)
            series.setdefault(family, []).extend(_labelled(sample, process) for sample in samples)
    lines = [line for family, head in heads.items() for line in (*head, *series[family])]
    return "".join(f"{line}\n" for line in lines).encode()


def _families(lines: Iterable[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Name, comments and samples of each family. A family begins with its HELP."""
    name, head, samples = "", list[str](), list[str]()
    for line in lines:
        if line.startswith("# HELP "):
            if name:
                yield name, head, samples
            name, head, samples = line.split(" ", 3)[2], [line], []
        elif line.startswith("#"):
            head.append(line)
        elif line:
            samples.append(line)
    if name:
        yield name, head, samples


def _labelled(sample: str, process: str) -> str:
    found = _NAME.match(sample)
    assert found is not None
    name, rest = sample[: found.end()], sample[found.end() :]
    label = f'process="{process}"'
    return f"{name}{{{label},{rest[1:]}" if rest.startswith("{") else f"{name}{{{label}}}{rest}"


class SharedPage:
    """A `Service` and a `PageMaker`: shows this process's page to the others of its command, and the pages of all to
    who asks. `path`: of this process's socket, `NAME.sock`; those of the others are beside it. A process that does not
    answer is left out, as Prometheus leaves out an instance that is down. The page is reused for `max_age_seconds`.
    """

    def __init__(self, path: str, own: PageMaker, *, clock: Clock, max_age_seconds: float) -> None:
        self._path = Path(path)
        self._own = own
        self._clock = clock
        self._max_age = max_age_seconds
        self._page = b""
        self._made_at = float("-inf")
        self._one_at_a_time = asyncio.Lock()
        self._socket = AnsweringSocket(self._path, own.page, name="metrics-answer")

    async def start(self) -> None:
        await self._socket.start()

    async def stop(self) -> None:
        await self._socket.stop()

    async def page(self) -> bytes:
        async with self._one_at_a_time:
            now = self._clock.monotonic()
            if now - self._made_at >= self._max_age:
                self._page, self._made_at = await self._whole(), now
            return self._page

    async def _whole(self) -> bytes:
        others = sorted(path for path in self._path.parent.glob("*.sock") if path != self._path)
        pages = {path.stem: page for path, page in zip(others, await concurrently(_ask, others), strict=True) if page}
        pages[self._path.stem] = await self._own.page()
        return merged(dict(sorted(pages.items())))


async def _ask(path: Path) -> bytes:
    """A process's page; empty if it does not answer."""
    try:
        async with asyncio.timeout(PAGE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                return await reader.read(-1)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""
