"""Running commands as an operator does, and what came of it."""

import io
import json
from typing import Any

from django.core.management import CommandError, call_command


def run(command: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command and give exit code, output, errors."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(command, *arguments, stdout=out, stderr=err)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except CommandError as error:
        code = error.returncode
        err.write(str(error))
    return code, out.getvalue(), err.getvalue()


def run_json(command: str, *arguments: str) -> Any:
    """Run a command with --json and give exit code and value."""
    code, out, _ = run(command, *arguments, "--json")
    return code, json.loads(out)


def run_lines(command: str, *arguments: str) -> tuple[int, list[Any]]:
    """Run a command with --json that prints one object a line; give exit code and objects."""
    code, out, _ = run(command, *arguments, "--json")
    return code, [json.loads(line) for line in out.splitlines()]
