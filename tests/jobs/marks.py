"""What the sample operations leave in their file: a line per run, and one per process that they start."""

from pathlib import Path


def lines(mark: Path) -> list[list[str]]:
    """Give the whole lines so far, in words."""
    text = mark.read_text() if mark.exists() else ""
    return [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]


def runs(mark: Path) -> list[str]:
    """Give the codes of the jobs in the order of their runs."""
    return [words[0] for words in lines(mark) if words[0].startswith("JOB-")]


def slots(mark: Path) -> list[int]:
    """Give the number of the process of each run."""
    return [int(words[2]) for words in lines(mark) if words[0].startswith("JOB-")]


def children(mark: Path) -> list[int]:
    """Give the number of each process that a run has started."""
    return [int(words[1]) for words in lines(mark) if words[0] == "child"]


def is_over(mark: Path) -> bool:
    """Whether a run has come to its end."""
    return ["over"] in lines(mark)


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits for its parent to take note of its end does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
