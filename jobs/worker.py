"""WORKER: the supervisor. It claims, beats and watches, and never runs an operation's code itself."""

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction

from audit.anchor import write_anchor
from audit.clock import database_now
from audit.exceptions import AuditError
from jobs import aging, queue, recovery, registry, service_manager
from jobs.attention import Attention
from jobs.database import TROUBLE, insist
from jobs.models import Job, Worker
from jobs.slot_process import Slot, start_slot

logger = logging.getLogger(__name__)
START_PAUSE = 1.0
# While the database is away it is asked again this often, or as often as for work.
TROUBLE_PAUSE = 2.0
# Trouble that lasts longer is an outage, which others have noticed too.
OUTAGE_SECONDS = 5.0
# A worker that leaves tells the database so for at most this long.
FAREWELL_SECONDS = 10.0
SKEW_WARNING_SECONDS = 5.0
# After the bell rang for nothing, others having been faster, the next look waits: doubled up to the longest.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.25


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
        self._idle_looks = 0
        self._curious = True
        self._rung = False
        self._pause = 0.0
        self._next_look = 0.0
        self._looked_at = time.monotonic()
        self._well_at = time.monotonic()
        self._outage_at = 0.0
        self._is_ready = False
        heartbeat = settings.CHP_HEARTBEAT_SECONDS
        self._sweep = Due(max(heartbeat, 1.0), recovery.sweep)
        self._duties = [
            Due(heartbeat, self._beat),
            self._sweep,
            Due(max(heartbeat, 60.0), recovery.mend),
            Due(max(heartbeat, 10.0), aging.raise_priorities),
            Due(settings.CHP_ANCHOR_SECONDS, _anchor),
        ]
        watchdog = service_manager.watchdog_seconds()
        if watchdog is not None:
            self._duties.append(Due(watchdog, self._feed_watchdog))

    def run(self) -> int:
        """Work until told to stop and give the exit code: 0 after a drain, 1 after a forced stop."""
        self._attention = Attention(self._note_signal)
        while not self._is_finished():
            try:
                self._turn()
            except TROUBLE as error:
                self._endure(error)
        return self._leave()

    def _turn(self) -> None:
        self._register()
        self._replace_slots()
        for duty in self._duties:
            duty.run_if_due()
        self._enforce_deadlines()
        if not self.signals and self._may_look():
            self._look()
        self._listen()
        self._well_at = time.monotonic()

    def _endure(self, error: Exception) -> None:
        """Outlast the database's absence. To ask in vain is a sign of life: a new worker could do no more."""
        logger.warning("database trouble, trying again: %s", error)
        connection.close()
        self._curious = True
        now, heartbeat = time.monotonic(), settings.CHP_HEARTBEAT_SECONDS
        if now - self._well_at > min(OUTAGE_SECONDS, heartbeat):
            self._outage_at = now
            # Other workers may have been silent for the same reason: they get the time to beat again.
            self._sweep.at = max(self._sweep.at, now + 2 * heartbeat)
        service_manager.tell("WATCHDOG=1")
        time.sleep(min(settings.CHP_POLL_SECONDS, TROUBLE_PAUSE))

    def _is_finished(self) -> bool:
        busy = any(slot.jobs for slot in self.slots)
        if self.signals > 1 or (self.signals and not busy):
            return True
        return self.once and not busy and self._idle_looks > 1

    def _note_signal(self) -> None:
        self.signals += 1
        if self.signals == 1:
            service_manager.tell("STOPPING=1", "STATUS=Finishing what runs")

    # --- being known -----------------------------------------------------------------------------
    def _register(self) -> None:
        if self.worker is not None:
            return
        now = database_now()
        fresh = Worker(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self.places,
            job_types=self.job_types,
            started_at=now,
            polled_at=now,
        )
        fresh.save(force_insert=True)
        self.worker = fresh
        logger.info("worker %s started with %d slots: %s", self.name, self.places, ", ".join(self.job_types))

    def _beat(self) -> None:
        worker = self.worker
        if worker is None:
            return
        tokens = {job.claim_token for slot in self.slots for job in slot.jobs}
        queue.beat(tokens)
        strays = queue.strays(worker, tokens)
        if strays:
            # Claimed, but the answer of the database was lost with its connection: no slot has them.
            recovery.hand_back(strays, f"{self.name} did not hear of its claim")
        now = database_now()
        worker.clock_skew_seconds = round(time.time() - now.timestamp(), 3)
        if abs(worker.clock_skew_seconds) > SKEW_WARNING_SECONDS:
            logger.warning("this machine's clock is %+.1f s off the database's", worker.clock_skew_seconds)
        if self._looks_lately() or self.signals:
            worker.polled_at = now
        # An upsert: somebody may have removed the row, and the worker goes on.
        worker.save()

    def _looks_lately(self) -> bool:
        """Whether the worker asked for work lately, or works and has no slot to ask for."""
        patience = max(settings.CHP_POLL_SECONDS * 3, settings.CHP_HEARTBEAT_SECONDS)
        busy = any(slot.jobs for slot in self.slots) and not any(slot.is_free for slot in self.slots)
        return busy or time.monotonic() - self._looked_at < patience

    def _feed_watchdog(self) -> None:
        if self._looks_lately() or self.signals:
            service_manager.tell("WATCHDOG=1")

    # --- slots -----------------------------------------------------------------------------------
    def _replace_slots(self) -> None:
        for slot in [slot for slot in self.slots if slot.process.poll() is not None]:
            self._bury(slot, f"slot ended with code {slot.process.returncode}")
        taken = {slot.place for slot in self.slots}
        for place in range(self.places if not self.signals else 0):
            if place not in taken:
                slot = start_slot(place)
                self._attention.watch(slot)
                self.slots.append(slot)

    def _bury(self, slot: Slot, why: str, *, spent: bool = True) -> None:
        """Give up a slot: see that nothing of it is left, and only then its jobs.

        Of a hand only the job that it was at is spent: those before had ended, those behind were not begun.
        """
        slot.end_group()
        why = slot.overdue or why
        for job in slot.jobs:
            if slot.overdue and slot.is_at(job):
                recovery.time_out(job, why)
            else:
                recovery.lose(job, why, spent=spent and slot.is_at(job))
        self._attention.forget(slot)
        self.slots.remove(slot)
        slot.dismiss()
        self._curious = True
        logger.warning("%s", why)
        time.sleep(0 if slot.ready else START_PAUSE)

    def _enforce_deadlines(self) -> None:
        """End slots that do not end by themselves. After an outage they may have but their ends to record."""
        grace = settings.CHP_DEADLINE_GRACE_SECONDS
        for slot in list(self.slots):
            if slot.jobs and time.monotonic() > max(slot.ends, self._outage_at) + grace:
                codes = ", ".join(job.code for job in slot.jobs)
                slot.overdue = f"its slot did not end {codes} by the deadline"
                self._bury(slot, slot.overdue)

    # --- looking for work ------------------------------------------------------------------------
    def _may_look(self) -> bool:
        if not any(slot.is_free for slot in self.slots):
            return False
        now = time.monotonic()
        return now >= self._next_look or (self._curious and now >= self._looked_at + self._pause)

    def _look(self) -> None:
        free = {slot.place: slot for slot in self.slots if slot.is_free}
        rung, self._curious, self._rung = self._rung, False, False
        self._pause = self._pause_after(rung)
        jobs = queue.claim(self.worker, list(free), self.job_types) if self.worker else []
        self._looked_at = time.monotonic()
        for place, slot in free.items():
            mine = [job for job in jobs if job.place == place]
            if mine:
                self._order(slot, mine)
        self._idle_looks = 0 if jobs else self._idle_looks + 1
        self._pause = 0.0 if jobs else self._pause
        due = queue.look().due_in if not jobs else None
        wait = settings.CHP_POLL_SECONDS if due is None else min(max(due, 0.0), settings.CHP_POLL_SECONDS)
        self._next_look = self._looked_at + max(wait, self._pause)

    def _pause_after(self, rung: bool) -> float:
        """Give the pause behind a look in vain: longer while the bell goes on ringing for nothing."""
        if not rung:
            return 0.0
        is_steady = time.monotonic() - self._looked_at < 4 * self._pause
        return min(self._pause * 2, LONGEST_PAUSE) if is_steady else SHORTEST_PAUSE

    def _order(self, slot: Slot, jobs: list[Job]) -> None:
        try:
            slot.order(jobs)
            for job in jobs:
                logger.info("%s %s started, attempt %d", job.code, job.job_type, job.attempt)
        except OSError:
            logger.warning("%s: its slot died before it could begin", jobs[0].code)

    # --- waiting ---------------------------------------------------------------------------------
    def _listen(self) -> None:
        """Wait until a slot speaks, the bell rings, a signal comes or something is due."""
        idle = not self.signals and any(slot.is_free for slot in self.slots)
        until = min(self._next_event(), time.monotonic() + settings.CHP_POLL_SECONDS)
        heard = self._attention.wait(until, idle=idle)
        self._rung = self._rung or heard.bell
        self._curious = self._curious or heard.bell
        for slot in heard.slots:
            self._hear(slot)

    def _next_event(self) -> float:
        moments = [duty.at for duty in self._duties]
        if any(slot.is_free for slot in self.slots) and not self.signals:
            moments.append(self._next_look)
            if self._curious:
                moments.append(self._looked_at + self._pause)
        return min(moments)

    def _hear(self, slot: Slot) -> None:
        try:
            slot.hear()
        except (EOFError, OSError):
            self._bury(slot, slot.last_words())
            return
        self._curious, self._pause = True, 0.0
        if not self._is_ready and all(one.ready for one in self.slots):
            self._is_ready = True
            service_manager.tell("READY=1", f"STATUS=Working with {self.places} slots")

    # --- leaving ---------------------------------------------------------------------------------
    def _leave(self) -> int:
        forced = any(slot.jobs for slot in self.slots)
        ends = time.monotonic() + FAREWELL_SECONDS
        try:
            insist(self._sign_off, giving_up=lambda: time.monotonic() > ends)
        except TROUBLE as error:
            logger.warning("database trouble while leaving; recovery sees to the rest: %s", error)
        self._attention.close()
        logger.info("worker %s stopped", self.name)
        return 1 if forced else 0

    def _sign_off(self) -> None:
        for slot in list(self.slots):
            if slot.jobs:
                slot.process.kill()
                self._bury(slot, "stopped by a second signal", spent=False)
            else:
                self._attention.forget(slot)
                self.slots.remove(slot)
                slot.leave()
        if self.worker is not None:
            with transaction.atomic():
                Worker.objects.filter(pk=self.worker.pk).update(stopped_at=database_now())


def _anchor() -> None:
    """Write down, outside the database, how far the trail has come."""
    try:
        write_anchor()
    except (OSError, AuditError) as error:
        logger.error("the audit anchor could not be written: %s", error)
