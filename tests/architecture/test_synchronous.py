"""The synchronous half of the SDK equals what `make sdk` generates from the asynchronous one."""

import pytest

from sdk.synchronous import BY_HAND, CLIENT, synchronous, synchronous_files


def test_what_is_committed_is_what_the_command_writes() -> None:
    written = dict(synchronous_files())
    assert written
    assert {path: path.read_text() for path in written if path.exists()} == written


def test_all_else_is_written_by_hand_in_both_halves() -> None:
    written = {path.name for path, _ in synchronous_files()}
    by_hand = {f"{name}.py" for name in BY_HAND}
    assert {path.name for path in (CLIENT / "_sync").glob("*.py")} == written | by_hand
    assert {path.name for path in (CLIENT / "_async").glob("*.py")} == written | by_hand


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("async def a(b: AsyncB) -> None:\n    await b.c()\n", "def a(b: B) -> None:\n    b.c()\n"),
        ("d = (await a(b)).c, (await a((await b).c)).d\n", "d = a(b).c, a(b.c).d\n"),
        ("async with a as b:\n    async for c in b: print(await b)\n", "with a as b:\n    for c in b: print(b)\n"),
        ("from minutehand.client._async.a import AsyncA\n", "from minutehand.client._sync.a import A\n"),
    ],
)
def test_asynchronous_words_become_synchronous(source: str, wanted: str) -> None:
    assert synchronous(source) == wanted


@pytest.mark.parametrize("source", ["import asyncio\n", "a.b_async()\n", "d = ( await a ).b\n"])
def test_what_has_no_synchronous_form_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"synchronous form|no bracket"):
        synchronous(source)
