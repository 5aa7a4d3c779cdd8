"""The soak's verdict names each possible fault on its own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.bench.verdict import RESTS, Memory, faults, growth
from tests.support.receiver import Calls

NODES = ["soak-1", "soak-2", "soak-3"]
Change = Callable[[dict[str, Any]], object]


def good() -> dict[str, Any]:
    return {
        "asked": 900_000,
        "created": 900_000,
        "created_ahead_seconds": 80.0,
        "lost": 0,
        "repeated": 0,
        "early": 0,
        "latest_ms": 1_999.0,
        "books": {"accepted": 900_000, "delivered": 900_000, "failed": 0, "cancelled": 0, "skipped": 0, "open": 0},
        "restarts": [{"name": name, "exit_code": 0} for name in NODES],
        "died": [],
        "memory_mb": {
            "cassandra": [100.0, 900.0, 100.0, 900.0],
            "api": [100.0, 109.9, 40.0, 48.0],
            **{name: [60.0] * 4 for name in NODES},
        },
    }


def test_a_good_soak_has_no_faults() -> None:
    assert faults(good(), nodes=NODES) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda found: found.update(created=899_999), "899,999 of 900,000", id="creates-refused"),
        pytest.param(lambda found: found.update(created_ahead_seconds=0.0), "fell behind", id="creates-late"),
        pytest.param(lambda found: found.update(lost=1), "1 calls were lost", id="lost"),
        pytest.param(lambda found: found.update(repeated=2), "2 calls were repeated", id="repeated"),
        pytest.param(lambda found: found.update(early=3), "3 calls were early", id="early"),
        pytest.param(lambda found: found.update(latest_ms=2_000.1), "2000.1 ms late", id="late"),
        pytest.param(lambda found: found.update(latest_ms=None), "None ms late", id="nothing-came"),
        pytest.param(lambda found: found["books"].update(delivered=899_999), "do not balance", id="not-delivered"),
        pytest.param(lambda found: found["books"].update(accepted=900_001), "do not balance", id="accepted-more"),
        pytest.param(lambda found: found["restarts"].pop(), "Not every node", id="not-restarted"),
        pytest.param(lambda found: found["restarts"][1].update(exit_code=137), "soak-2 ended with code 137", id="kill"),
        pytest.param(lambda found: found["died"].append("api"), "api ended by itself", id="died"),
        pytest.param(lambda found: found["memory_mb"]["api"].__setitem__(1, 110.1), "grew before", id="grew-before"),
        pytest.param(lambda found: found["memory_mb"]["api"].__setitem__(3, 48.1), "grew after", id="grew-after"),
        pytest.param(lambda found: found["memory_mb"].pop("soak-2"), "soak-2 was not measured", id="left-out"),
        pytest.param(lambda found: found["memory_mb"]["api"].__setitem__(0, None), "not measured", id="not-measured"),
    ],
)
def test_each_fault_is_named(change: Change, said: str) -> None:
    found = good()
    change(found)
    assert any(said in sentence for sentence in faults(found, nodes=NODES))


def test_memory_is_compared_within_each_rest() -> None:
    samples: Memory = [((at + 0.5) / 100, {"api": float(at)}) for at in range(100)]
    # The restarts fall between the rests: a process before them tells nothing about the one after.
    assert growth(samples, "api") == [28.0, 41.0, 74.5, 94.5]
    assert growth(samples, "soak-1") == [None] * 4
    assert RESTS[0][1] < RESTS[1][0]


def test_a_late_second_attempt_is_late_if_the_first_never_arrived() -> None:
    calls = Calls()
    head = (
        b"post / http/1.1\r\nwebhook-id: %b\r\nminutehand-attempt: %b\r\nminutehand-due: 1970-01-01t00:00:10.000z\r\n"
    )
    calls.add(head % (b"one", b"1"), 10.001)
    calls.add(head % (b"one", b"2"), 19.0)
    assert calls.report()["latest_ms"] == 1.0
    calls.add(head % (b"two", b"2"), 15.0)
    report = calls.report()
    assert (report["latest_ms"], report["lateness_ms"]["max"]) == (5_000.0, 1.0)
