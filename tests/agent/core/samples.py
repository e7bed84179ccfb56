"""Small actions that the core is tested with, and the program that serves them."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from agent.declarations.names import SiteId
from agent.declarations.schema import Declaration, Lock
from agent.declarations.table import DECLARATIONS
from agent.dispatch import Action
from agent.exceptions import ActionFailed
from agent.operation import OperationView
from agent.policy import load_policy
from agent.server import serve


@dataclass(frozen=True)
class Work(Declaration):
    """Exclusive work that counts how often it was executed and stops at checkpoints."""

    action: ClassVar[str] = "sample.work"
    lock: ClassVar[Lock] = Lock.EXCLUSIVE
    safe_to_kill: ClassVar[bool] = True

    site_id: SiteId
    milliseconds: int = 0


@dataclass(frozen=True)
class Look(Declaration):
    """Shared reading."""

    action: ClassVar[str] = "sample.look"
    lock: ClassVar[Lock] = Lock.SHARED

    site_id: SiteId
    milliseconds: int = 0


@dataclass(frozen=True)
class Change(Declaration):
    """Mutating work that hears no order to stop and must not be killed."""

    action: ClassVar[str] = "sample.change"
    lock: ClassVar[Lock] = Lock.MUTATING

    site_id: SiteId
    milliseconds: int = 0


@dataclass(frozen=True)
class RunTool(Declaration):
    """Waits for a tool that inherits the site's lock, and fails if it does; a deaf tool ignores SIGTERM."""

    action: ClassVar[str] = "sample.run_tool"
    lock: ClassVar[Lock] = Lock.EXCLUSIVE
    safe_to_kill: ClassVar[bool] = True

    site_id: SiteId
    seconds: int
    deaf: bool = True


@dataclass(frozen=True)
class ChangeByTool(RunTool):
    """The same, but not to be killed."""

    action: ClassVar[str] = "sample.change_by_tool"
    lock: ClassVar[Lock] = Lock.MUTATING
    safe_to_kill: ClassVar[bool] = False


@dataclass(frozen=True)
class Fail(Declaration):
    """Ends in the way that is asked for."""

    action: ClassVar[str] = "sample.fail"

    way: str


@dataclass(frozen=True)
class NeedRoot(Declaration):
    """Needs root."""

    action: ClassVar[str] = "sample.need_root"
    needs_root: ClassVar[bool] = True


@dataclass(frozen=True)
class Missing(Declaration):
    """Is declared and not there."""

    action: ClassVar[str] = "sample.missing"


def work(arguments: Work | Look, operation: OperationView) -> dict[str, object]:
    count(operation)
    operation.progress(10, "working")
    until = time.monotonic() + arguments.milliseconds / 1000
    while time.monotonic() < until:
        time.sleep(0.02)
        operation.checkpoint("a while")
    operation.event("worked", {"site": operation.site_id})
    return {"site_id": arguments.site_id}


def change(arguments: Change, operation: OperationView) -> dict[str, object]:
    count(operation)
    time.sleep(arguments.milliseconds / 1000)
    return {"changed": True}


TOOL = """
import signal, time
if {deaf}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep({seconds})
"""


def run_tool(arguments: RunTool, operation: OperationView) -> dict[str, object]:
    program = TOOL.format(deaf=arguments.deaf, seconds=arguments.seconds)
    tool = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, close_fds=False)
    assert tool.stdout is not None
    tool.stdout.readline()
    operation.event("tool runs", {"pid": tool.pid})
    if tool.wait() != 0:
        raise ActionFailed("the tool failed")
    return {}


def fail(arguments: Fail, operation: OperationView) -> dict[str, object]:
    if arguments.way == "failed":
        raise ActionFailed("the disk said no")
    if arguments.way == "long message":
        raise ActionFailed("x" * 300_000)
    if arguments.way == "large":
        return {"text": "x" * 300_000}
    if arguments.way == "large event":
        operation.event("large", {"text": "x" * 300_000})
        return {}
    if arguments.way == "exit":
        os._exit(3)
    raise ValueError("secret: not for the answer")


def count(operation: OperationView) -> None:
    """Leave one line per execution, outside of the agent's own memory."""
    with Path(operation.policy.sites_root, "executed").open("a") as file:
        file.write(f"{operation.request_id}\n")


SAMPLE_ACTIONS: Mapping[str, Action] = {
    "sample.work": work,
    "sample.look": work,
    "sample.change": change,
    "sample.run_tool": run_tool,
    "sample.change_by_tool": run_tool,
    "sample.fail": fail,
    "sample.need_root": lambda arguments, operation: {},
}
SAMPLE_DECLARATIONS: dict[str, type[Declaration]] = {
    **DECLARATIONS,
    **{
        declaration.action: declaration
        for declaration in (Work, Look, Change, RunTool, ChangeByTool, Fail, NeedRoot, Missing)
    },
}

if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    serve(load_policy(sys.argv[1]), SAMPLE_ACTIONS, SAMPLE_DECLARATIONS)
