"""What a running operation is given: its job, checkpoints, progress, events and the agent."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from agent.declarations.schema import Declaration
from agent.protocol import Answer
from audit.clock import database_now
from audit.redaction import clean_text
from jobs import events
from jobs.agent_client import AgentSession
from jobs.conflicts import agent_lock
from jobs.database import insist
from jobs.events import Line
from jobs.exceptions import CancelAsked, DeadlinePassed, OwnershipLost
from jobs.models import EventType, Job, Level
from jobs.operation import Result, Value
from jobs.states import HELD, Status
from sites.models import Site


class SlotContext:
    """The context of one attempt, used by one slot. Every write matches the attempt's claim token.

    `fetched` is when the slot got the job, of the monotonic clock.
    """

    def __init__(self, job: Job, fetched: float) -> None:
        if job.site is None or job.server is None or job.deadline_at is None:
            raise OwnershipLost(f"{job.code} has no site, server or deadline.")
        self.job = job
        self.site: Site = job.site
        self.acted = False
        self._has_lock = False
        self._ends = time.monotonic() + _seconds_left(job)
        self._unwritten: list[Line] = []
        self._fetched = fetched
        self._supervisor = os.getppid()
        self._share = (0, 100)
        self._session = AgentSession(
            job.server,
            job.uuid,
            job.epoch,
            agent_lock(job.lock, job.mutating),
            still_wanted=self._require_wanted,
        )

    def close(self) -> None:
        """Let go of the agent, and with it of the site's lock on the server."""
        self._session.close()

    def checkpoint(self, name: str) -> None:
        """Stop here if the job must stop; else note the place."""
        status = self._require_owned()
        if status == Status.CANCEL_REQUESTED:
            raise CancelAsked(f"stopped at checkpoint: {name}")
        if self.seconds_left() <= 0:
            raise DeadlinePassed(f"timed out after {self.job.timeout_seconds} s at {name}", stopped=True)
        self.event(name, event_type=EventType.CHECKPOINT)

    def progress(self, percent: int, step: str) -> None:
        """Say how far the work is."""
        values = {"progress_percent": max(0, min(100, percent)), "progress_step": clean_text(step, 200)}
        insist(lambda: self._mine().update(**values), giving_up=self._abandoned)

    def event(
        self,
        message: str,
        *,
        event_type: EventType = EventType.PROGRESS,
        level: Level = Level.INFO,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a line to the history, if the attempt still owns the job."""
        line = Line(event_type, message, level, data or {})
        if self.job.brief and event_type == EventType.STARTED:
            # Brief work ends at once, and its beginning is written with its end, at its own time.
            passed = timedelta(seconds=time.monotonic() - self._fetched)
            claimed = self.job.started_at
            self._unwritten.append(replace(line, at=claimed + passed if claimed else None))
            return
        insist(lambda: self._append(line), giving_up=self._abandoned)

    @property
    def unwritten(self) -> tuple[Line, ...]:
        """Give the lines that are still to be written."""
        return tuple(self._unwritten)

    def agent(self, step: str, declared: Declaration, *, share: tuple[int, int] = (0, 100)) -> Result:
        """Have the agent do one declared action and give its result."""
        self.checkpoint(f"before {step}")
        self._share = share
        self.event(f"{step}: {declared.action}", event_type=EventType.ACTION_STARTED)
        self.acted = True
        result = self._session.call(step, declared, self.seconds_left(), self._hear)
        self.event(step, event_type=EventType.ACTION_COMPLETED, data=result)
        return result

    def record(self, write: Callable[[], Value]) -> Value:
        """Write rows in one transaction that holds the job by this claim's token."""
        return insist(lambda: self._record(write), giving_up=self._abandoned)

    def _record(self, write: Callable[[], Value]) -> Value:
        with transaction.atomic():
            if not self._mine().select_for_update().exists():
                raise OwnershipLost(f"{self.job.code} belongs to a newer claim or has ended")
            return write()

    def earlier(self, step: str) -> Result | None:
        """Give what an earlier claim's same step came to, by the agent's journal."""
        return self._session.earlier_result(step) if self.job.epoch > 1 else None

    def seconds_left(self) -> float:
        """Give the seconds until the job's deadline, by the monotonic clock."""
        return self._ends - time.monotonic()

    def _hear(self, answer: Answer) -> None:
        body = answer.body
        if answer.kind == "progress":
            low, high = self._share
            percent = low + int(body.get("percent", 0)) * (high - low) // 100
            self.progress(percent, str(body.get("step", "")))
        elif answer.kind == "checkpoint":
            self.event(str(body.get("name", "")), event_type=EventType.CHECKPOINT)
        elif answer.kind == "event":
            self.event(str(body.get("message", "")), data=body.get("data") or {})
        elif answer.kind == "accepted" and not self._has_lock:
            # The connection keeps the lock from its first accepted step to its end.
            self._has_lock = True
            self.event(f"{self.site} on {self.job.server}", event_type=EventType.LOCK_ACQUIRED)

    def _require_wanted(self) -> bool:
        """Whether the work is still wanted: False once cancellation was asked. Raises OwnershipLost."""
        return self._require_owned() == Status.RUNNING

    def _require_owned(self) -> str:
        if self._abandoned():
            raise OwnershipLost("the worker's supervisor is gone")
        status = insist(
            lambda: self._mine().values_list("status", flat=True).first(), giving_up=self._abandoned
        )
        if status is None:
            raise OwnershipLost(f"{self.job.code} belongs to a newer claim or has ended")
        return status

    def _mine(self) -> QuerySet[Job]:
        return Job.objects.filter(pk=self.job.pk, claim_token=self.job.claim_token, status__in=HELD)

    def _append(self, line: Line) -> None:
        now = database_now()
        while self._unwritten:
            events.append_if_owned(self.job, self._unwritten[0], now)
            self._unwritten.pop(0)
        events.append_if_owned(self.job, line, now)

    def _abandoned(self) -> bool:
        # A slot whose supervisor died has nobody who beats for it: its job will be handed out again.
        return os.getppid() != self._supervisor


def _seconds_left(job: Job) -> float:
    if job.brief or job.deadline_at is None:
        # Claimed together with others, which ran before it: its own time begins now.
        return float(job.timeout_seconds)
    return (job.deadline_at - insist(database_now)).total_seconds()
