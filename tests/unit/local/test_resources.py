"""Memory and disk: how they are read from the system, and when they are too small."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from minutehand.local.errors import DiskFull, TooLittleMemory
from minutehand.local.machine import available_memory_mb, check_disk, check_memory


def machine(root: Path, *, available_kib: int | None, group: tuple[str, str, str] | None = None) -> Path:
    if available_kib is not None:
        (root / "proc").mkdir()
        (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available_kib} kB\n")
    if group is not None:
        (root / "sys/fs/cgroup").mkdir(parents=True)
        for name, text in zip(("memory.max", "memory.current", "memory.stat"), group, strict=True):
            (root / "sys/fs/cgroup" / name).write_text(text)
    return root


def test_available_memory_is_read_from_the_system(tmp_path: Path) -> None:
    assert available_memory_mb(machine(tmp_path, available_kib=2_048_000)) == 2000


def test_a_tighter_control_group_counts(tmp_path: Path) -> None:
    group = ("1073741824\n", "536870912\n", "anon 5\ninactive_file 104857600\nactive_file 0\n")
    assert available_memory_mb(machine(tmp_path, available_kib=2_048_000, group=group)) == 612


def test_an_unlimited_control_group_does_not(tmp_path: Path) -> None:
    group = ("max\n", "536870912\n", "")
    assert available_memory_mb(machine(tmp_path, available_kib=2_048_000, group=group)) == 2000


def test_unknown_available_memory_passes_the_check(tmp_path: Path) -> None:
    available = available_memory_mb(machine(tmp_path, available_kib=None))
    assert available is None
    check_memory(1024, available)


def test_too_little_memory_is_reported_in_numbers() -> None:
    check_memory(1024, 1424)
    with pytest.raises(TooLittleMemory) as caught:
        check_memory(1024, 1423)
    assert "heap of 1024 MB needs about 1424 MB of memory but 1423 MB are available" in str(caught.value)
    assert "smaller heap" in caught.value.remedy


def test_too_little_disk_is_reported_in_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_disk(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=100 * 1024 * 1024))
    with pytest.raises(DiskFull, match=r"Only 100 MB .* Free at least 512 MB"):
        check_disk(tmp_path / "not" / "there")
    check_disk(tmp_path, freed_bytes=412 * 1024 * 1024)
