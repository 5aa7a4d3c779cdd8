"""One word, one thing: what `docs/glossary.md` has replaced comes back nowhere, in code, CQL, documents or file
names."""

import re
from collections.abc import Iterator

from tests.architecture.sources import ROOT, name_of, texts

GLOSSARY = ROOT / "docs" / "glossary.md"
HISTORY = ("cql/migrations/", "tests/architecture/test_words.py", "docs/glossary.md", "docs/decisions/")
LEFT = {
    "lane": "poller",
    "lanes": "pollers",
    "tenant": "client",
    "tenants": "clients",
    "Life": "NodeIncarnation",
    "Custody": "LeaseTable",
    "custody": "lease table",
    "Keeper": "LeaseBalancer",
    "keeper": "lease balancer",
    "Heartbeater": "MembershipAgent",
    "heartbeater": "membership agent",
    "Floors": "LowWatermarks",
    "floors": "low watermarks",
    "Narrow": "ConcurrencyLimiter",
    "Statics": "PartitionHeader",
    "Advance": "OwnerCommit",
    "WriteAdvance": "WriteCommit",
    "Edit": "ExternalUpdate",
    "Debts": "FollowUps",
    "debts": "follow-ups",
    "Anew": "RescanThrottle",
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
    "start_poller": "start_node",
    "serve_poller": "serve_node",
    "compose_poller": "compose_node",
    "wiring_poller": "wiring_node",
    "foresaw": "unhandled exception",
    "whoever": "caller",
    "Whoever": "caller",
}
"""Words that are gone, each with the one that is used."""
PLAIN = {
    "again", "break cycle", "caller", "compose node", "create idempotently", "defer", "headroom", "is retry row",
    "requeued", "send trial call", "serve node", "start node", "storage metric", "trial caller",
    "unhandled exception", "wiring node", "write commit",
}  # fmt: skip
"""Those of them, in the singular, that need no entry in the glossary: plain English, or made of words with one."""
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
"""The customer is a tenant in front of the house; and what is stored, or hashed into what is, keeps its name."""
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def said(text: str) -> Iterator[str]:
    """Every word, and every part of a name of several."""
    for found in WORD.finditer(text):
        yield found[0]
        if "_" in found[0].strip("_"):
            yield from (part for part in found[0].split("_") if part)


def test_no_word_that_was_replaced_is_back() -> None:
    back = {
        (name_of(path), word)
        for path, text in texts()
        if not name_of(path).startswith(HISTORY) and path.suffix != ".lock"
        for word in said(text)
        if word in LEFT or ENDS.fullmatch(word)
    }
    assert sorted(f"{name}: {word}, say {LEFT.get(word, '...Query')}" for name, word in back - KEPT) == []
    assert back & KEPT == KEPT, "an exception that is not needed any more"


def test_no_file_is_called_so() -> None:
    named = {name_of(path): set(re.split(r"[_.\-]", path.stem)) | {path.stem} for path, _ in texts()}
    assert {name for name, words in named.items() if words & LEFT.keys() and not name.startswith(HISTORY)} == set()


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
