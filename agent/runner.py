"""The one place where the agent starts a process.

Tools are found in fixed folders and get a list of arguments, a fixed clean environment, the root folder as
their working directory and no input but what is given. They stay in the operation's process group, so that
what ends the operation ends them, and they inherit the site's lock, so that a survivor keeps the site closed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from agent.exceptions import ActionFailed
from agent.owner import Owner

TOOL_FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
ENVIRONMENT = {
    "PATH": ":".join(TOOL_FOLDERS),
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "HOME": "/",
}
# A tool names every file it could not read: room for some hundred thousand.
LONGEST_STDERR = 16 * 1024 * 1024
LONGEST_OUTPUT = 16 * 1024 * 1024
LONGEST_ANSWER = 64 * 1024 * 1024

Argument = str | bytes


@dataclass(frozen=True)
class Finished:
    """How a tool ended. A negative code is the number of the signal that ended it.

    Where a tool said more than is kept of it, `stderr` is the end of what it said.
    """

    tool: str
    code: int
    stdout: bytes
    stderr: str
    is_stderr_cut: bool = False

    def require(self, *codes: int) -> "Finished":
        """Give itself if the exit code is one of these (0 where none is named). Raises ActionFailed."""
        if self.code in (codes or (0,)):
            return self
        how = f"was ended by {_signal_name(-self.code)}" if self.code < 0 else f"ended with code {self.code}"
        said = self.stderr.strip()[-1500:]
        raise ActionFailed(f"{self.tool} {how}" + (f": {said}" if said else ""))


def _signal_name(number: int) -> str:
    known = {int(member): member.name for member in signal.Signals}
    return known.get(number, f"signal {number}")


class Tool:
    """A tool that runs. Its errors go to a file, so that it never waits for somebody to read them."""

    def __init__(
        self,
        arguments: Sequence[Argument],
        *,
        owner: Owner | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
    ) -> None:
        self.name = os.path.basename(os.fsdecode(arguments[0]))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the tool has ended
        who: dict[str, Any] = {}
        if owner is not None:
            who = {"user": owner.uid, "group": owner.gid, "extra_groups": []}
        self.process = subprocess.Popen(
            # Under its plain name, with which it begins what it says.
            [self.name, *arguments[1:]],
            executable=tool_path(self.name),
            stdin=stdin,
            stdout=stdout,
            stderr=self._errors,
            cwd="/",
            env=ENVIRONMENT,
            umask=0o077,
            # Only what is marked inheritable is inherited: the site's lock.
            close_fds=False,
            restore_signals=True,
            **who,
        )

    @property
    def output(self) -> IO[bytes]:
        """The tool's output, where it was asked for as a pipe."""
        if self.process.stdout is None:
            raise ValueError(f"the output of {self.name} goes elsewhere")
        return self.process.stdout

    def finish(self, stdout: bytes = b"") -> Finished:
        """Wait for the end and tell of it."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        code = self.process.wait()
        said = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, said - LONGEST_STDERR))
        text = self._errors.read().decode("utf-8", "backslashreplace")
        self._errors.close()
        return Finished(self.name, code, stdout, text, said > LONGEST_STDERR)

    def stop(self) -> None:
        """End the tool where its work is no longer wanted."""
        if self.process.poll() is None:
            self.process.kill()
        self.finish()


def tool_path(name: str) -> str:
    """Give the absolute path of a tool in the fixed folders. Raises ActionFailed naming what to install."""
    for folder in TOOL_FOLDERS:
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK):
            return path
    raise ActionFailed(f"the tool {name} is not installed on this server")


def has_tool(name: str) -> bool:
    """Say whether a tool is installed."""
    return any(os.access(f"{folder}/{name}", os.X_OK) for folder in TOOL_FOLDERS)


def run(
    arguments: Sequence[Argument], *, owner: Owner | None = None, stdin: int | IO[bytes] = subprocess.DEVNULL
) -> Finished:
    """Run a tool to its end and give what it printed, up to a limit."""
    tool = Tool(arguments, owner=owner, stdin=stdin)
    printed = tool.output.read(LONGEST_OUTPUT + 1)
    if len(printed) > LONGEST_OUTPUT:
        tool.stop()
        raise ActionFailed(f"{tool.name} printed more than {LONGEST_OUTPUT} bytes")
    return tool.finish(printed)


def start_child(function: Callable[[], object], *, own_group: bool = True, owner: Owner | None = None) -> int:
    """Fork, have the function done in the child, and give the child's process number.

    The child ends with code 0, or 1 where the function raised; it never comes back into the caller's code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if own_group:
            os.setpgid(0, 0)
        if owner is not None:
            owner.drop_to()
        function()
        code = 0
    except Exception:  # noqa: BLE001 - the outermost frame of this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def call_as(owner: Owner | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Have a function done by a process of the site's owner and give its result, which must be JSON data.

    Raises ActionFailed with what the function raised. The process is of the operation's group.
    """
    reading, writing = os.pipe()
    pid = start_child(lambda: _answer(writing, function, arguments), own_group=False, owner=owner)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read(LONGEST_ANSWER)
    _, status = os.waitpid(pid, 0)
    if status != 0 or not answer:
        code = os.waitstatus_to_exitcode(status)
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"broke off with code {code}"
        raise ActionFailed(f"{function.__name__} {how}")
    told = json.loads(answer)
    if "error" in told:
        raise ActionFailed(f"{function.__name__}: {told['error']}")
    return told["result"]


def _answer(writing: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.umask(0o077)
    try:
        told = {"result": function(*arguments)}
    except (ActionFailed, OSError, ValueError) as error:
        told = {"error": str(error)}
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(told).encode())
