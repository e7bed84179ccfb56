"""WORKER: the supervisor. It claims, beats and watches, and never runs an operation's code itself."""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import FrameType

from django.conf import settings
from django.db import connection, transaction

from audit.anchor import write_anchor
from audit.clock import database_now
from audit.exceptions import AuditError
from jobs import recovery, registry
from jobs.database import TROUBLE
from jobs.models import Job, Worker
from jobs.queue import beat, claim
from jobs.slot_process import Slot, start_slot

logger = logging.getLogger(__name__)
# Beyond its deadline a job's slot gets this long to end by itself before it is killed.
DEADLINE_GRACE = 30.0
START_PAUSE = 1.0


@dataclass
class Due:
    """Something to do every so many seconds of the monotonic clock."""

    every: float
    act: Callable[[], object]
    at: float = 0.0

    def run_if_due(self) -> None:
        if time.monotonic() >= self.at:
            self.act()
            self.at = time.monotonic() + self.every


class Supervisor:
    """One worker process. `slots` is how many jobs it runs at once; `once` leaves when the queue is empty."""

    def __init__(self, name: str, slots: int, *, once: bool = False) -> None:
        self.name = name
        self.slots: list[Slot] = []
        self.places = slots
        self.once = once
        self.worker: Worker | None = None
        self.signals = 0
        self.job_types = registry.known_types()
        self._idle_polls = 0
        heartbeat = settings.CHP_HEARTBEAT_SECONDS
        self._duties = [
            Due(heartbeat, self._beat),
            Due(max(heartbeat, 1.0), recovery.sweep),
            Due(settings.CHP_ANCHOR_SECONDS, _anchor),
        ]

    def run(self) -> int:
        """Work until told to stop and give the exit code: 0 after a drain, 1 after a forced stop."""
        signal.signal(signal.SIGTERM, self._note_signal)
        signal.signal(signal.SIGINT, self._note_signal)
        while not self._is_finished():
            try:
                self._turn()
            except TROUBLE as error:
                logger.warning("database trouble, trying again: %s", error)
                connection.close()
                time.sleep(settings.CHP_POLL_SECONDS)
        return self._leave()

    def _turn(self) -> None:
        self._register()
        self._replace_slots()
        for duty in self._duties:
            duty.run_if_due()
        self._enforce_deadlines()
        if not self.signals:
            self._claim()
        self._listen()

    def _is_finished(self) -> bool:
        busy = any(slot.job for slot in self.slots)
        if self.signals > 1 or (self.signals and not busy):
            return True
        return self.once and not busy and self._idle_polls > 1

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    def _register(self) -> None:
        if self.worker is not None:
            return
        now = database_now()
        self.worker = Worker.objects.create(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self.places,
            job_types=self.job_types,
            started_at=now,
            polled_at=now,
        )
        logger.info("worker %s started with %d slots: %s", self.name, self.places, ", ".join(self.job_types))

    def _replace_slots(self) -> None:
        for slot in [slot for slot in self.slots if slot.process.poll() is not None]:
            self._bury(slot, f"slot ended with code {slot.process.returncode}")
        while not self.signals and len(self.slots) < self.places:
            self.slots.append(start_slot())

    def _bury(self, slot: Slot, why: str, *, spent: bool = True) -> None:
        if slot.job is not None:
            recovery.lose(slot.job, why, spent=spent)
        self.slots.remove(slot)
        slot.dismiss()
        logger.warning("%s", why)
        time.sleep(0 if slot.ready else START_PAUSE)

    def _beat(self) -> None:
        if self.worker is None:
            return
        tokens = [slot.job.claim_token for slot in self.slots if slot.job]
        beat(self.worker, tokens)

    def _enforce_deadlines(self) -> None:
        now = database_now()
        for slot in list(self.slots):
            job = slot.job
            if job is None or job.deadline_at is None:
                continue
            if (now - job.deadline_at).total_seconds() > DEADLINE_GRACE:
                slot.kill()
                self._bury(slot, f"slot did not end {job.code} by its deadline")

    def _claim(self) -> None:
        free = [slot for slot in self.slots if slot.is_free]
        jobs = claim(self.worker, len(free), self.job_types) if self.worker else []
        for slot, job in zip(free, jobs, strict=False):
            self._order(slot, job)
        if free:
            self._idle_polls = 0 if jobs else self._idle_polls + 1

    def _order(self, slot: Slot, job: Job) -> None:
        try:
            slot.order(job)
            logger.info("%s %s started, attempt %d", job.code, job.job_type, job.attempt)
        except OSError:
            logger.warning("%s: its slot died before it could begin", job.code)

    def _listen(self) -> None:
        pipes = {slot.orders: slot for slot in self.slots}
        for pipe in wait(list(pipes), timeout=settings.CHP_POLL_SECONDS):
            slot = pipes[pipe]  # type: ignore[index]
            try:
                slot.hear()
            except (EOFError, OSError):
                slot.process.wait()

    def _leave(self) -> int:
        forced = any(slot.job for slot in self.slots)
        for slot in list(self.slots):
            if slot.job is not None:
                slot.kill()
                self._bury(slot, "stopped by a second signal", spent=False)
            else:
                slot.dismiss()
                slot.process.wait()
        if self.worker is not None:
            with transaction.atomic():
                Worker.objects.filter(pk=self.worker.pk).update(stopped_at=database_now())
        logger.info("worker %s stopped", self.name)
        return 1 if forced else 0


def _anchor() -> None:
    """Write down, outside the database, how far the trail has come."""
    try:
        write_anchor()
    except (OSError, AuditError) as error:
        logger.error("the audit anchor could not be written: %s", error)
