"""The lock of jars: its format, and the committed file."""

import re
from pathlib import Path

from minutehand.local.lock import describe
from minutehand.local.lock_file import LOCK_FILE, Jar, JarSet, read_lock, read_sets, render_lock

PLAIN = Jar("org.example.deep", "thing", "1.0-b2", "", 12, "ab" * 32)
NATIVE = Jar("org.example.deep", "thing", "1.0-b2", "linux-x86_64", 13, "cd" * 32)


def test_paths_and_coordinates() -> None:
    assert str(PLAIN.path) == "org/example/deep/thing/1.0-b2/thing-1.0-b2.jar"
    assert str(NATIVE.path) == "org/example/deep/thing/1.0-b2/thing-1.0-b2-linux-x86_64.jar"
    assert PLAIN.coordinate == "org.example.deep:thing:1.0-b2"
    assert NATIVE.coordinate == "org.example.deep:thing:jar:linux-x86_64:1.0-b2"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    first = JarSet("first", "org.example.deep:thing:1.0-b2", (PLAIN, NATIVE))
    second = JarSet("second", "org.example:other:2", (), ("others-bring",))
    lock = tmp_path / "some.lock.toml"
    lock.write_text(render_lock([second, first]))
    assert read_lock("first", lock) == first
    assert read_lock("second", lock) == second
    assert read_sets(lock) == [first, second]
    assert first.version == "1.0-b2"


def test_the_order_of_jars_and_sets_does_not_matter() -> None:
    one, other = JarSet("a", "x:y:1", (PLAIN, NATIVE)), JarSet("b", "x:z:1", ())
    assert render_lock([one, other]) == render_lock([other, JarSet("a", "x:y:1", (NATIVE, PLAIN))])


def test_a_downloaded_file_is_described_by_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / NATIVE.path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    found = describe(path, tmp_path)
    assert (found.coordinate, found.filename, found.size) == (NATIVE.coordinate, NATIVE.filename, 7)


def test_the_committed_lock_pins_cassandra_completely() -> None:
    jars = read_lock("cassandra")
    assert jars.root == "org.apache.cassandra:cassandra-all:5.0.9"
    assert any(jar.artifact == "cassandra-all" and jar.version == jars.version for jar in jars.jars)
    assert len({jar.path for jar in jars.jars}) == len(jars.jars)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) and jar.size > 0 for jar in jars.jars)


def test_the_committed_lock_is_as_it_is_written() -> None:
    assert render_lock(read_sets()) == LOCK_FILE.read_text(encoding="utf-8")
    assert "://" not in LOCK_FILE.read_text(encoding="utf-8")


def test_what_is_added_to_spark_holds_nothing_that_spark_brings() -> None:
    jars = read_lock("spark")
    assert {jar.artifact for jar in jars.jars}.isdisjoint(jars.provided)
    assert any(jar.artifact == "spark-cassandra-connector_2.12" for jar in jars.jars)
