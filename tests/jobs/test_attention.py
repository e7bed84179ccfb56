"""What a supervisor waits on: slots, a listener whose connection comes and goes, signals."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.attention import Attention


class Line:
    """A listener on a descriptor that a test gives it."""

    look_seconds: float | None = None

    def __init__(self) -> None:
        self.now: tuple[int, int] | None = None
        self.becomes: tuple[int, int] | None = None
        self.rings = False

    def connected(self) -> tuple[int, int] | None:
        return self.now

    def heard(self) -> bool:
        self.now = self.becomes
        return self.rings

    def close(self) -> None:
        self.now = None


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    monkeypatch.setattr("jobs.attention.new_listener", lambda: line)
    return line


@pytest.fixture
def keep_signals() -> Iterator[None]:
    """Put back the handlers that a supervisor sets."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def attend(keep_signals: None, line: Line) -> Iterator[Callable[[], Attention]]:
    """Give a function that begins to wait on the line as it then is."""
    begun: list[Attention] = []

    def begin() -> Attention:
        begun.append(Attention(lambda: None))
        return begun[-1]

    yield begin
    for attention in begun:
        attention.close()


def soon() -> float:
    return time.monotonic() + 20


def test_a_new_connection_with_the_old_ones_number_is_waited_on(
    line: Line, attend: Callable[[], Attention]
) -> None:
    """Queue C6: the kernel forgets a descriptor that is closed, whoever gets its number next."""
    first, second = socket.socketpair(), socket.socketpair()
    number = first[0].fileno()
    line.now = line.becomes = (1, number)
    attention = attend()
    first[1].send(b"x")
    assert attention.wait(soon(), idle=True).bell is False
    first[0].detach()
    socket.close(number)
    replaced = socket.socket(fileno=_as_number(second[0], number))
    line.now = line.becomes = (2, number)
    attention.wait(time.monotonic(), idle=True)
    line.rings = True
    second[1].send(b"x")
    started = time.monotonic()
    assert attention.wait(soon(), idle=True).bell
    assert time.monotonic() - started < 10
    for one in (first[1], second[1], replaced):
        one.close()


def _as_number(one: socket.socket, number: int) -> int:
    os.dup2(one.fileno(), number)
    one.close()
    return number


def test_the_number_of_a_lost_connection_may_be_a_slots_next(
    line: Line, attend: Callable[[], Attention]
) -> None:
    """Queue A10, C6: a slot is replaced in the same turn in which the listener has lost its session."""
    lost, slot = socket.socketpair(), socket.socketpair()
    number = lost[0].fileno()
    line.now = (1, number)
    attention = attend()
    line.rings = True
    lost[1].send(b"x")
    assert attention.wait(soon(), idle=True).bell
    lost[0].detach()
    socket.close(number)
    orders = socket.socket(fileno=_as_number(slot[0], number))
    one: Any = SimpleNamespace(orders=orders)
    attention.watch(one)
    slot[1].send(b"x")
    assert attention.wait(soon(), idle=True).slots == (one,)
    attention.forget(one)
    for end in (lost[1], slot[1], orders):
        end.close()


def test_a_signal_ends_a_wait(line: Line, attend: Callable[[], Attention]) -> None:
    """Queue H7: also one that came before it began."""
    attention = attend()
    signal.raise_signal(signal.SIGTERM)
    started = time.monotonic()
    heard = attention.wait(soon(), idle=False)
    assert (heard.slots, heard.bell) == ((), False)
    assert time.monotonic() - started < 10
