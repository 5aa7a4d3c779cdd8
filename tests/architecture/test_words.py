"""Words that `docs/glossary.md` has replaced occur nowhere: not in code, CQL, documents or file names."""

import ast
import re
from functools import cache

import pytest

from tests.architecture.sources import ROOT, name_of, room_modules, texts

GLOSSARY = ROOT / "docs" / "glossary.md"
HISTORY = ("cql/migrations/", "tests/architecture/test_words.py", "docs/glossary.md", "docs/decisions/")
LEFT = {
    "lane": "poller",
    "lanes": "pollers",
    "tenant": "client",
    "tenants": "clients",
    "Life": "NodeIncarnation",
    "custody": "lease table",
    "keeper": "lease balancer",
    "heartbeater": "membership agent",
    "floors": "low watermarks",
    "Narrow": "ConcurrencyLimiter",
    "Statics": "PartitionHeader",
    "Advance": "OwnerCommit",
    "WriteAdvance": "WriteCommit",
    "Edit": "ExternalUpdate",
    "debts": "follow-ups",
    "anew": "again",
    "OpenRow": "PendingRow",
    "OpenRows": "PendingRows",
    "Firing": "MinuteContext",
    "put_off": "defer",
    "claim_room": "headroom",
    "rehome": "requeue",
    "rehomed": "requeued",
    "is_copy": "is_retry_row",
    "CronChildren": "CronFireGuard",
    "NodeNews": "StateChangeLog",
    "AskOnce": "CreateIdempotently",
    "ask_once": "create_idempotently",
    "SecretBox": "SecretEncryption",
    "secret_box": "secret_encryption",
    "SendSample": "SendTrialCall",
    "SampleCaller": "TrialCaller",
    "Patience": "TimerQueue",
    "_let_go": "_break_cycle",
    "StorageMeasures": "StorageMetrics",
    "gauges": "metrics",
    "start_poller": "start_node",
    "serve_poller": "serve_node",
    "compose_poller": "compose_node",
    "wiring_poller": "wiring_node",
    "foresaw": "unhandled exception",
    "whoever": "caller",
    "Payments": "FollowUpRunner",
    "payments": "follow-ups",
    "creditor": "target",
    "on_paid": "on_acknowledged",
    "owes": "requires",
    "RoomFull": "QueueFull",
    "BodyRoom": "BodyCapacity",
    "SetBack": "ClockCorrection",
    "set_back": "clock_correction",
    "PollerWork": "HeldPoller",
    "CronSearch": "OverdueScan",
}
"""Replaced words, each with its replacement. A word in lower case is replaced in upper case too."""
CLASSES = {"Pace": "RecordPace", "Pass": "PartitionScan", "Place": "ScheduleWriter", "Walk": "RecoveryRange"}
"""Replaced words that are plain English otherwise: no class may have such a name."""
PLAIN = {
    "again", "body capacity", "break cycle", "caller", "compose node", "create idempotently", "defer",
    "follow up runner", "headroom", "is retry row", "metric", "on acknowledged", "queue full", "requeued", "require",
    "send trial call", "serve node", "start node", "storage metric", "trial caller", "unhandled exception",
    "wiring node", "write commit",
}  # fmt: skip
"""Replacements, in the singular, without an entry in the glossary: plain English, or made of words with one."""
ENDS = re.compile(r"\w+Asked")
KEPT = {
    ("README.md", "tenants"),
    ("helm/minutehand/Chart.yaml", "tenant"),
    ("pyproject.toml", "tenant"),
    ("scheduler_service/api/openapi/document.py", "tenant"),
    ("membership/rendezvous.py", "lane"),
    ("cql/schema.cql", "lanes"),
    ("cql/statements/bulk_loads.cql", "lanes"),
}
"""Exceptions: a customer of the operator is called a tenant; and stored or hashed names stay."""
FOREIGN = {"bigben": frozenset({"tenant", "tenants"})}
"""Words of other systems whose API is served here: they may stand in files with the system's name in their path."""
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@cache
def replaced(name: str) -> frozenset[str]:
    """The replaced words in a name, be it `lane_table` or `LaneTable`."""
    parts = [part for part in name.split("_") if part]
    humps = [hump for part in parts for hump in PART.findall(part)]
    return frozenset(word for word in (name, *parts, *humps) if instead(word))


def instead(word: str) -> str | None:
    return LEFT.get(word) or LEFT.get(word.lower()) or ("...Query" if ENDS.fullmatch(word) else None)


def is_foreign(name: str, word: str) -> bool:
    """Whether the word is that of a system which the file is about."""
    return any(system in name and word.lower() in words for system, words in FOREIGN.items())


def test_no_word_that_was_replaced_is_back() -> None:
    back = {
        (name_of(path), word)
        for path, text in texts()
        if not name_of(path).startswith(HISTORY) and path.suffix != ".lock"
        for name in set(WORD.findall(text))
        for word in replaced(name)
    }
    left = {(name, word) for name, word in back - KEPT if not is_foreign(name, word)}
    assert sorted(f"{name}: {word}, say {instead(word)}" for name, word in left) == []
    assert back & KEPT == KEPT, "an exception that is not needed any more"


def test_no_class_is_called_by_a_plain_word_that_was_replaced() -> None:
    named = [
        f"{name}: {node.name}, say {CLASSES[node.name]}"
        for name, tree in room_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in CLASSES
    ]
    assert named == []


@pytest.mark.parametrize(
    "text",
    ["LaneTable", "TenantStore", "LifeRecord", "KeeperOf", "a_lane", "_Lanes", "LANES", "edit_row, Edit", "NodesAsked"],
)
def test_the_check_finds_replaced_words(text: str) -> None:
    assert any(replaced(name) for name in WORD.findall(text))


def test_a_word_of_another_system_is_at_home_in_its_files_only() -> None:
    assert is_foreign("scheduler_service/api/bigben/events.py", "Tenant")
    assert not is_foreign("scheduler_service/api/bigben/events.py", "lane")
    assert not is_foreign("scheduler_service/api/http/wire.py", "tenant")


def test_plain_words_are_not_found() -> None:
    text = "to edit, advance or narrow a list; LANESIDE, planes, edit_row, the life of AdvancedEditing"
    assert [name for name in WORD.findall(text) if replaced(name)] == []


def test_no_file_is_called_so() -> None:
    named = {name_of(path): set(re.split(r"[_.\-]", path.stem)) | {path.stem} for path, _ in texts()}
    assert {
        name for name, words in named.items() if any(instead(word) for word in words) and not name.startswith(HISTORY)
    } == set()


def test_no_process_is_called_a_poller() -> None:
    """A poller is the slot that a lease is held on; the process is a node."""
    process = re.compile(r"(?i)\b(minutehand poller\b|pollers? process(es)?\b|APIs? and pollers?\b|program=.poller)")
    assert [
        f"{name_of(path)}: {found[0]}"
        for path, text in texts()
        if not name_of(path).startswith(HISTORY)
        for found in process.finditer(text)
    ] == []


def test_the_glossary_defines_the_words_that_are_used() -> None:
    rows = re.findall(r"^\| ([^|]+?) \|", GLOSSARY.read_text(), re.MULTILINE)
    defined = {row.lower().replace("-", " ") for row in rows}
    used = {" ".join(part.lower() for part in PART.findall(new)).removesuffix("s") for new in LEFT.values()}
    assert used - defined == PLAIN
