"""How far a Cassandra has come in its start, by the lines of its log.

Each stage begins with a line, and its percentage is the share of the start that had passed when the line was written:
the mean of measured starts on 2 cores, of empty and of filled data directories, alone and beside other work. Within a
stage the percentage approaches the next one's and never reaches it, so a slow start goes on moving.
"""

from pathlib import Path

STAGES = (
    (b"Configuration location: ", 10),
    (b"Hostname: ", 22),
    (b"Initializing system.IndexInfo", 37),
    (b"Initialized prepared statement caches", 64),
    (b"Token metadata: ", 73),
    (b"Cassandra version: ", 83),
    (b"Starting up server gossip", 87),
    (b"Starting listening for CQL clients", 99),
)
_USUAL_SECONDS = 8.0


class StartStages:
    """Reads the log as it grows. Instants are seconds of any clock."""

    def __init__(self, log_file: Path, *, began: float) -> None:
        self._log_file = log_file
        self._read = 0
        self._rest = b""
        self._passed = 0
        self._since = began

    def percent(self, now: float) -> int:
        """From 0 to 99, and never less than before."""
        before = self._passed
        self._rest += self._news()
        while self._passed < len(STAGES) and (at := self._rest.find(STAGES[self._passed][0])) >= 0:
            self._rest = self._rest[at:]
            self._passed += 1
        self._rest = self._rest[-_LONGEST:]
        if self._passed > before:
            self._since = now
        share = STAGES[self._passed - 1][1] if self._passed else 0
        if self._passed == len(STAGES):
            return share
        width, waited = STAGES[self._passed][1] - share, now - self._since
        usual = _USUAL_SECONDS * width / 100
        return int(share + width * waited / (waited + usual))

    def _news(self) -> bytes:
        try:
            with self._log_file.open("rb") as file:
                file.seek(self._read)
                news = file.read()
        except OSError:
            return b""
        self._read += len(news)
        return news


_LONGEST = max(len(line) for line, _ in STAGES)
