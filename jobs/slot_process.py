"""The supervisor's side of a slot: the child process, its pipe, and the job it has in hand."""

import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection

from django.conf import settings

from jobs.models import Job


@dataclass
class Slot:
    """One child process. `job` is what it works on, None while it is free; `ready` once it has started up."""

    process: subprocess.Popen[bytes]
    orders: Connection
    job: Job | None = None
    ready: bool = False

    @property
    def is_free(self) -> bool:
        return self.ready and self.job is None

    def order(self, job: Job) -> None:
        """Hand over a claimed job. Raises OSError where the slot has died meanwhile."""
        self.job = job
        self.orders.send((job.pk, job.claim_token))

    def hear(self) -> None:
        """Take the slot's message: it is ready, or its job is done. Raises EOFError when it has died."""
        self.orders.recv()
        self.ready = True
        self.job = None

    def dismiss(self) -> None:
        """Close the pipe: a free slot leaves by itself."""
        self.orders.close()

    def kill(self) -> None:
        """End the process now. What the agent does for it goes on under the agent's own deadline."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.orders.close()


def start_slot() -> Slot:
    """Start a slot, in a session of its own: a Ctrl-C at the terminal does not cut work short."""
    mine, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                str(settings.BASE_DIR / "manage.py"),
                "hosting_slot",
                "--fd",
                str(theirs.fileno()),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Slot(process, Connection(mine.detach()))
