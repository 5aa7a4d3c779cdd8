"""A fake `java`: it answers `-version` and then behaves as its script says, so that starts take milliseconds.

`home(directory, behaviour)` writes it and returns the environment that makes the embedded server use it. `starter` is
the code of a program that starts such a server, for tests that kill the program.
"""

import sys
from pathlib import Path

ANSWERS = "answers"
"""Speaks CQL (its handshake at least) on the configured port until TERM."""
DEAF = "deaf"
"""Speaks CQL and ignores TERM."""
SILENT = "silent"
"""Never listens."""

_SERVER = """
import json, signal, socket, sys
behaviour = sys.argv[1]
if behaviour.startswith("says "):
    print(behaviour[5:])
    sys.exit(1)
if behaviour == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "silent":
    signal.pause()
config = [word for word in sys.argv if word.startswith("-Dcassandra.config=")][0]
yaml = json.load(open(config.removeprefix("-Dcassandra.config=file://")))
with socket.create_server((yaml["rpc_address"], yaml["native_transport_port"])) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(9)
            connection.sendall(bytes([0x84, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0]))
"""

starter = """
import signal, sys
from pathlib import Path
from minutehand.local import EmbeddedCassandra, cassandra
from minutehand.local.lock_file import JarSet
cassandra.read_lock = lambda name: JarSet(name, "org.example:none:0", ())
data_dir, java_home, native_port, storage_port, tied = sys.argv[1:]
print("begun", flush=True)
running = EmbeddedCassandra(
    data_dir=Path(data_dir),
    native_port=int(native_port),
    storage_port=int(storage_port),
    tied=tied == "tied",
    heap_mb=1,
    environment={"MINUTEHAND_JAVA_HOME": java_home, "MINUTEHAND_CACHE_DIR": data_dir},
).start()
print(running.pid, flush=True)
if tied == "tied":
    signal.pause()
"""


def home(directory: Path, behaviour: str) -> dict[str, str]:
    """Write a Java home whose servers behave as named; `says TEXT` prints it and exits with code 1."""
    server = directory / "server.py"
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    server.write_text(_SERVER)
    java.write_text(
        "#!/bin/sh\n"
        'for word; do [ "$word" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit 0; }; done\n'
        f'exec "{sys.executable}" -I -S "{server}" "{behaviour}" "$@"\n'
    )
    java.chmod(0o755)
    return {"MINUTEHAND_JAVA_HOME": str(directory), "MINUTEHAND_CACHE_DIR": str(directory / "cache")}
