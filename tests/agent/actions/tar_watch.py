"""Catching the real tar while it reads a file: held still, something is done, and it goes on."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path


class TarWatch:
    """From `start` on waits until tar has a file of a folder open, holds it there, and calls `meanwhile`.

    Made in the thread that will start tar.
    """

    def __init__(self, folder: Path, meanwhile: Callable[[Path], object]) -> None:
        self.caught: Path | None = None
        self._folder = folder
        self._meanwhile = meanwhile
        self._starter = threading.get_native_id()
        self._thread = threading.Thread(target=self._watch)

    def start(self, step: str) -> None:
        """Begin at the step that archives the files. To be given to a view as its `on_progress`."""
        if step == "archiving the files":
            self._thread.start()

    def join(self) -> Path:
        """Wait for the end and give the path of the file that tar had open."""
        self._thread.join()
        assert self.caught is not None, "tar was never seen at a file"
        return self.caught

    def _watch(self) -> None:
        ends = time.monotonic() + 20
        while self.caught is None and time.monotonic() < ends:
            for pid in self._children():
                self._look_at(pid)

    def _children(self) -> list[int]:
        listed = Path(f"/proc/self/task/{self._starter}/children").read_text()
        return [int(word) for word in listed.split()]

    def _look_at(self, pid: int) -> None:
        if not _open_below(pid, self._folder):
            return
        os.kill(pid, signal.SIGSTOP)
        try:
            _wait_until_stopped(pid)
            paths = _open_below(pid, self._folder)
            if paths:
                self.caught = paths[0]
                self._meanwhile(paths[0])
        finally:
            os.kill(pid, signal.SIGCONT)


def _wait_until_stopped(pid: int) -> None:
    ends = time.monotonic() + 5
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
        assert time.monotonic() < ends, "tar does not stop"


def _open_below(pid: int, folder: Path) -> list[Path]:
    """Give the files below a folder that a process called tar has open."""
    found = []
    try:
        if Path(f"/proc/{pid}/comm").read_text() != "tar\n":
            return []
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = Path(os.readlink(f"/proc/{pid}/fd/{name}"))
            if path.parent == folder:
                found.append(path)
    except OSError:
        return []
    return found
