"""The supervisor's side of a slot: the child process, its pipe, and the jobs it has in hand."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from django.conf import settings

from jobs.ledger import NONE, Ledger, new_ledger
from jobs.models import Job

logger = logging.getLogger(__name__)
# A group that is told to end gets this long before it is killed.
GROUP_GRACE = 5.0
# How long a slot that has closed its pipe may take to end, and one whose supervisor has closed it.
LAST_SECONDS = 1.0
LEAVE_SECONDS = 15.0
LOOK_SECONDS = 0.02


@dataclass
class Slot:
    """One child process at one place. `jobs` is what it was handed; `ready` once it has started up.

    `overdue` says, once its supervisor ends it for that, how it passed its deadline.
    """

    place: int
    process: subprocess.Popen[bytes]
    orders: Connection
    ledger: Ledger
    jobs: list[Job] = field(default_factory=list)
    ready: bool = False
    ends: float = 0.0
    overdue: str = ""

    @property
    def is_free(self) -> bool:
        return self.ready and not self.jobs

    def order(self, jobs: list[Job]) -> None:
        """Hand over claimed jobs. Raises OSError where the slot has died meanwhile."""
        self.jobs = jobs
        self.ledger.begun = NONE
        self.ends = time.monotonic() + max(_seconds(job) for job in jobs)
        self.orders.send([(job.pk, job.claim_token) for job in jobs])

    def hear(self) -> None:
        """Take the slot's message: it is ready, or its jobs are done. Raises EOFError when it has died."""
        self.orders.recv()
        self.ready = True
        self.jobs = []

    def is_at(self, job: Job) -> bool:
        """Whether of its hand this job was begun last, also when the slot has died since."""
        return self.jobs.index(job) == self.ledger.begun

    def last_words(self) -> str:
        """Say how it came to its end, after its pipe did."""
        try:
            return f"slot ended with code {self.process.wait(LAST_SECONDS)}"
        except subprocess.TimeoutExpired:
            return "slot no longer listened"

    def dismiss(self) -> None:
        """Close the pipe: a free slot leaves by itself."""
        self.orders.close()
        self.ledger.close()

    def leave(self) -> None:
        """Let a free slot leave by itself, and end what then is left."""
        self.dismiss()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVE_SECONDS)
        self.end_group()

    def end_group(self) -> None:
        """End the process and all that it has started: ask, wait, kill, and see that none is left.

        What the agent does for it is not among these and goes on under the agent's own deadline.
        """
        for number, seconds in ((signal.SIGTERM, GROUP_GRACE), (signal.SIGKILL, GROUP_GRACE)):
            if not self._signal_group(number):
                break
            ends = time.monotonic() + seconds
            while self._signal_group(0) and time.monotonic() < ends:
                time.sleep(LOOK_SECONDS)
        try:
            self.process.wait(GROUP_GRACE)
        except subprocess.TimeoutExpired:
            # The kernel holds it in a call of its own; it will do nothing more of what it was asked.
            logger.error("slot %d was killed and is not gone yet", self.process.pid)

    def _signal_group(self, number: int) -> bool:
        # The slot leads a session and so a group of its own. Reaped first: a zombie still answers signals.
        self.process.poll()
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True


def start_slot(place: int) -> Slot:
    """Start a slot, in a session of its own: a Ctrl-C at the terminal does not cut work short."""
    mine, theirs = socket.socketpair()
    ledger = new_ledger()
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                str(settings.BASE_DIR / "manage.py"),
                "hosting_slot",
                *("--fd", str(theirs.fileno()), "--ledger", str(ledger.descriptor)),
            ],
            pass_fds=[theirs.fileno(), ledger.descriptor],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Slot(place, process, Connection(mine.detach()), ledger)


def _seconds(job: Job) -> float:
    if job.deadline_at is None or job.started_at is None:
        return float(job.timeout_seconds)
    return (job.deadline_at - job.started_at).total_seconds()
