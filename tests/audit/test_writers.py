"""Many processes write one chain; one of them that is killed in mid-write leaves it whole."""

import os
import signal
import time
from collections.abc import Callable

import pytest
from django.db import connection, connections

from audit.models import AuditEntry, AuditHead
from audit.verification import verify_trail
from tests.audit.builders import write

WRITERS, EACH = 8, 100

pytestmark = pytest.mark.django_db(transaction=True)


def started(act: Callable[[], None]) -> int:
    """Run this in a process of its own, with database connections of its own; give its id."""
    connections.close_all()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        act()
        code = 0
    finally:
        connections.close_all()
        os._exit(code)


def write_each() -> None:
    for _ in range(EACH):
        write(1)


def write_for_ever() -> None:
    while True:
        write(3)


def test_database_of_the_tests_can_be_shared_by_processes() -> None:
    assert not connection.settings_dict["NAME"].startswith("file:memory")


def test_eight_processes_write_one_chain_without_a_gap() -> None:
    """Queue J1."""
    AuditHead.objects.all().delete()  # the hardest start: nothing there yet to lock
    children = [started(write_each) for _ in range(WRITERS)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * WRITERS
    assert AuditHead.objects.get().sequence == WRITERS * EACH == AuditEntry.objects.count()
    assert verify_trail().verdict.problem is None


def test_writer_killed_in_mid_write_leaves_a_whole_chain() -> None:
    """Queue J4."""
    for _ in range(4):
        child = started(write_for_ever)
        time.sleep(0.15)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    verdict = verify_trail().verdict
    assert verdict.problem is None
    assert verdict.entries % 3 == 0
    write(1)
    assert verify_trail().verdict.entries == verdict.entries + 1
