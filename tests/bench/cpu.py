"""CPU time and memory of other processes, by the system's accounting."""

import os
import subprocess
from pathlib import Path


def cpu_seconds(pid: int) -> float | None:
    """User and system time that a process and its threads used so far; None when it is gone."""
    if Path("/proc/self/stat").exists():
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    answer = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return _seconds(answer.stdout.strip()) if answer.returncode == 0 else None


def _seconds(text: str) -> float:
    """`[[days-]hours:]minutes:seconds` as `ps` writes it."""
    total = 0.0
    for part in text.replace("-", ":").split(":"):
        total = total * 60 + float(part)
    return total


def memory_mb(pid: int) -> float | None:
    """What a process holds in memory now (resident), in MiB; None when it is gone."""
    answer = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(answer.stdout) / 1024 if answer.returncode == 0 else None
