"""Real worker processes that are killed, frozen, drained and started again; none outlives the pool."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Timer

from tests.engine.body import Body, descendants
from tests.engine.trouble import Trouble

ROOT = Path(__file__).resolve().parents[2]
LEAVE_SECONDS = 60.0
# Whoever ends this program with violence ends its workers too.
ALONG = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


class Member:
    """One start of a worker."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name = name
        self.process = process
        self.body = Body(process.pid)
        # It has been seen with a slot, so it listens to signals and has no more excuse to leave by itself.
        self.is_grown = False
        self.was_asked = False
        # Whatever becomes of it then is no fault of its own.
        self.is_excused = False


class Pool:
    """A number of workers under fixed names, and the slots below them."""

    def __init__(self, environment: Mapping[str, str], log: Path, size: int, slots: int) -> None:
        self._environment = environment
        self._log = log
        self._slots = slots
        self._slot_bodies: dict[int, Body] = {}
        self._timers: list[Timer] = []
        self._leaving: list[Member] = []
        self.complaints: list[str] = []
        self.members = {name: self._start(name) for name in (f"w{number}" for number in range(size))}

    def troubles(self) -> list[Trouble]:
        """Give what can befall it."""
        return [self.kill_worker, self.kill_slot, self.freeze_worker, self.freeze_slot, self.drain_worker]

    # --- What can befall it ----------------------------------------------------------------------
    def kill_worker(self, dice: Random) -> str:
        """Kill a supervisor; its slots are left to find out."""
        self._note()
        member = self._pick(dice)
        member.is_excused = True
        member.body.send(signal.SIGKILL)
        return f"kill {member.name}"

    def kill_slot(self, dice: Random) -> str:
        """Kill a slot, whatever it does."""
        slot = self._pick_slot(dice)
        if slot is not None:
            slot.send(signal.SIGKILL)
        return "kill a slot"

    def freeze_worker(self, dice: Random) -> str:
        """Stop a supervisor for a while, as a machine does that is out of breath."""
        self._note()
        member, seconds = self._pick(dice), dice.uniform(0.2, 4)
        self._freeze(member.body, seconds)
        return f"freeze {member.name} for {seconds:.1f} s"

    def freeze_slot(self, dice: Random) -> str:
        """Stop a slot for a while."""
        slot, seconds = self._pick_slot(dice), dice.uniform(0.2, 4)
        if slot is not None:
            self._freeze(slot, seconds)
        return f"freeze a slot for {seconds:.1f} s"

    def drain_worker(self, dice: Random) -> str:
        """Ask a worker to leave, sometimes twice, and let another of its name begin at once."""
        self._note()
        member, hurry = self._pick(dice), dice.random() < 0.3
        self._ask_to_leave(member)
        if hurry:
            member.is_excused = True
            member.body.send(signal.SIGTERM)
        self.members[member.name] = self._start(member.name)
        return f"drain {member.name}{' in a hurry' if hurry else ''}"

    # --- Its upkeep ------------------------------------------------------------------------------
    def tend(self) -> None:
        """Start again who has ended; see to those who leave; take note of slots."""
        for name, member in list(self.members.items()):
            if member.process.poll() is not None:
                self._judge(member)
                self.members[name] = self._start(name)
        self._bury_those_who_left()
        self._note()

    def calm(self) -> None:
        """Let everybody who was stopped go on."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for body in self._bodies():
            body.send(signal.SIGCONT)

    def stop(self) -> None:
        """Ask all to leave and see whether they do."""
        self.calm()
        for member in self.members.values():
            self._ask_to_leave(member)
        ends = time.monotonic() + LEAVE_SECONDS
        for member in self._leaving:
            if not member.body.wait(max(0.0, ends - time.monotonic())):
                self.complaints.append(f"{member.name} was told to leave and did not in {LEAVE_SECONDS} s")
        self._bury_those_who_left()

    def end(self) -> None:
        """Leave nobody behind."""
        self._note()
        self.calm()
        for body in self._bodies():
            body.send(signal.SIGKILL)
        for member in [*self.members.values(), *self._leaving]:
            member.process.wait()

    def _start(self, name: str) -> Member:
        arguments = ["--name", name, "--slots", str(self._slots)]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*ALONG, sys.executable, "manage.py", "hosting_worker", *arguments],
                cwd=ROOT,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return Member(name, process)

    def _judge(self, member: Member) -> None:
        code = member.process.returncode
        if member.is_excused or (member.was_asked and code == 0) or not member.is_grown:
            return
        how = "when it was told to" if member.was_asked else "by itself"
        self.complaints.append(f"{member.name} left {how}, with code {code}")

    def _bury_those_who_left(self) -> None:
        for member in [member for member in self._leaving if member.process.poll() is not None]:
            self._judge(member)
            self._leaving.remove(member)

    def _ask_to_leave(self, member: Member) -> None:
        member.was_asked = True
        # Told before it can listen, it dies of the signal.
        member.is_excused = member.is_excused or not member.is_grown
        member.body.send(signal.SIGTERM)
        self._leaving.append(member)

    def _pick(self, dice: Random) -> Member:
        return self.members[dice.choice(sorted(self.members))]

    def _pick_slot(self, dice: Random) -> Body | None:
        self._note()
        alive = [body for _, body in sorted(self._slot_bodies.items()) if body.is_alive]
        return dice.choice(alive) if alive else None

    def _freeze(self, body: Body, seconds: float) -> None:
        body.send(signal.SIGSTOP)
        # In a thread: who waits for a lock that the stopped one holds could not let it go on.
        timer = Timer(seconds, body.send, [signal.SIGCONT])
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _bodies(self) -> list[Body]:
        members = [*self.members.values(), *self._leaving]
        return [*(member.body for member in members), *self._slot_bodies.values()]

    def _note(self) -> None:
        """Take hold of every slot while its supervisor still leads to it; let go of the dead."""
        for pid, body in list(self._slot_bodies.items()):
            if not body.is_alive:
                del self._slot_bodies[pid]
        for member in [*self.members.values(), *self._leaving]:
            below = descendants(member.process.pid)
            member.is_grown = member.is_grown or bool(below)
            for pid in set(below) - self._slot_bodies.keys():
                self._take(pid, member)

    def _take(self, pid: int, member: Member) -> None:
        with suppress(ProcessLookupError):
            body = Body(pid)
            # Looked at again: between the first look and the hold the number might have changed its owner.
            if body.is_alive and pid in descendants(member.process.pid):
                self._slot_bodies[pid] = body
