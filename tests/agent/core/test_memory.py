"""Nonces, journal and site locks: what the agent remembers and holds, without a server."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.declarations.schema import Lock
from agent.exceptions import Overloaded, Replayed, SiteBusy, Stale
from agent.journal import Claim, Journal, Outcome, State
from agent.liveness import identify, is_alive
from agent.nonces import KEEP_MS, Nonces
from agent.protocol import MAX_AGE_MS, MAX_AHEAD_MS
from agent.site_lock import take_site_lock
from tests.agent.core.running import new_id, wait_until

NOW = 1_800_000_000_000


@pytest.fixture
def journal(folder: Path) -> Journal:
    journal = Journal(folder)
    journal.prepare()
    return journal


def nonces(folder: Path, most: int = 1000) -> Nonces:
    memory = Nonces(folder, most)
    memory.prepare()
    return memory


def claim(identity: str) -> Claim:
    return Claim(identity, "sample.work", "digest", 7)


def in_child(function: Callable[[], int]) -> int:
    """Run in a process of its own; give its pid."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = function()
        finally:
            os._exit(code)
    return pid


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_nonce_is_taken_once_also_by_a_new_process_of_the_memory(folder: Path) -> None:
    nonces(folder).spend("a", NOW, NOW)
    with pytest.raises(Replayed):
        nonces(folder).spend("a", NOW, NOW)


def test_a_nonce_is_remembered_longer_than_its_request_is_fresh(folder: Path) -> None:
    memory = nonces(folder)
    memory.spend("a", NOW + MAX_AHEAD_MS, NOW)
    with pytest.raises(Replayed):
        memory.spend("a", NOW + MAX_AHEAD_MS, NOW + MAX_AHEAD_MS + MAX_AGE_MS + 1)


def test_a_full_memory_refuses_instead_of_forgetting(folder: Path) -> None:
    memory = nonces(folder, 2)
    memory.spend("a", NOW, NOW)
    memory.spend("b", NOW, NOW)
    with pytest.raises(Overloaded):
        memory.spend("c", NOW, NOW)
    memory.spend("c", NOW + KEEP_MS + 1, NOW + KEEP_MS + 1)


def test_a_clock_that_went_ahead_and_back_opens_no_door_for_copies(folder: Path) -> None:
    memory = nonces(folder)
    memory.spend("a", NOW, NOW)
    memory.spend("b", NOW + 2 * KEEP_MS, NOW + 2 * KEEP_MS)
    with pytest.raises(Stale, match="clock was ahead"):
        memory.spend("a", NOW, NOW)


def test_of_many_claims_of_one_id_one_wins(journal: Journal) -> None:
    identity = new_id()
    start = time.monotonic() + 0.2

    def compete() -> int:
        time.sleep(max(0.0, start - time.monotonic()))
        return 10 if journal.claim(claim(identity)) else 11

    codes = [exit_code(pid) for pid in [in_child(compete) for _ in range(8)]]
    assert sorted(codes) == [10] + [11] * 7


def test_an_outcome_is_kept_with_times(journal: Journal) -> None:
    identity = new_id()
    journal.claim(claim(identity))
    journal.finish(identity, State.SUCCEEDED, Outcome("result", {"n": 1}))
    journal.finish(identity, State.FAILED, Outcome("error", {}))
    entry = journal.find(identity)
    assert entry is not None
    assert (entry.state, entry.outcome) == (State.SUCCEEDED, Outcome("result", {"n": 1}))
    assert entry.started_at <= (entry.ended_at or 0)


def test_what_a_dead_process_left_is_interrupted_when_read(journal: Journal) -> None:
    identity = new_id()
    assert exit_code(in_child(lambda: int(not journal.claim(claim(identity))))) == 0
    entry = journal.find(identity)
    assert entry is not None
    assert entry.state is State.INTERRUPTED
    assert entry.outcome is not None
    assert entry.outcome.body["code"] == "interrupted"


def test_what_a_live_process_does_is_started(journal: Journal) -> None:
    identity = new_id()
    journal.claim(claim(identity))
    journal.prepare()
    entry = journal.find(identity)
    assert entry is not None
    assert (entry.state, entry.outcome, entry.ended_at) == (State.STARTED, None, None)


def test_a_reused_pid_is_not_taken_for_the_dead_process(journal: Journal) -> None:
    identity = new_id()
    journal.claim(claim(identity))
    with sqlite3.connect(journal.path) as connection:
        connection.execute("UPDATE operation SET process_started = 'another-boot:1'")
    connection.close()
    entry = journal.find(identity)
    assert entry is not None
    assert entry.state is State.INTERRUPTED


def test_a_job_is_told_newest_first_and_without_others(journal: Journal) -> None:
    first, other = new_id(), new_id()
    job = first.partition(":")[0]
    for identity in (first, other, f"{job}:1:2"):
        journal.claim(claim(identity))
    assert [entry.claim.request_id for entry in journal.of_job(job)] == [f"{job}:1:2", first]
    assert [entry.claim.request_id for entry in journal.latest(2)] == [f"{job}:1:2", other]


def test_a_zombie_is_not_alive() -> None:
    def wait() -> int:
        time.sleep(60)
        return 0

    pid = in_child(wait)
    process = identify(pid)
    assert process is not None
    assert is_alive(process)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(process))
    os.waitpid(pid, 0)


ALLOWED_TOGETHER = {
    (Lock.SHARED, Lock.SHARED),
    (Lock.SHARED, Lock.EXCLUSIVE),
    (Lock.EXCLUSIVE, Lock.SHARED),
}
LOCKS = [Lock.SHARED, Lock.EXCLUSIVE, Lock.MUTATING]


@pytest.mark.parametrize("held", LOCKS)
@pytest.mark.parametrize("asked", LOCKS)
def test_locks_stand_together_as_the_matrix_says(folder: Path, held: Lock, asked: Lock) -> None:
    first = take_site_lock(folder, 7, held)
    try:
        second = take_site_lock(folder, 7, asked)
    except SiteBusy:
        assert (held, asked) not in ALLOWED_TOGETHER
        second = take_site_lock(folder, 8, asked)
    else:
        assert (held, asked) in ALLOWED_TOGETHER
    for descriptor in first.descriptors + second.descriptors:
        os.close(descriptor)
    for descriptor in take_site_lock(folder, 7, Lock.MUTATING).descriptors:
        os.close(descriptor)


def test_a_lock_that_was_refused_half_way_leaves_nothing_behind(folder: Path) -> None:
    shared = take_site_lock(folder, 7, Lock.SHARED)
    with pytest.raises(SiteBusy, match="site 7"):
        take_site_lock(folder, 7, Lock.MUTATING)
    exclusive = take_site_lock(folder, 7, Lock.EXCLUSIVE)
    for descriptor in shared.descriptors + exclusive.descriptors:
        os.close(descriptor)


def test_a_link_in_place_of_a_lock_file_is_not_followed(folder: Path) -> None:
    (folder / "7.lock").symlink_to(folder / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        take_site_lock(folder, 7, Lock.EXCLUSIVE)
    assert not (folder / "elsewhere").exists()
