"""Every console script starts as an operator starts it, says how it is used, and is fully described."""

import os
import re
import subprocess
import sys
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests.architecture.source import ROOT
from tests.architecture.test_references import page, sections

SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
BIN = Path(sys.executable).parent
OPTION = re.compile(r"--[a-z][a-z-]*")
DJANGO = [name for name in SCRIPTS if name.replace("-", "_") in get_commands()]


@cache
def help_of(*words: str) -> str:
    """Run a script with --help as from a shell, where nobody has named a settings module."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [BIN / words[0], *words[1:], "--help"],
        capture_output=True,
        text=True,
        env={**environment, "COLUMNS": "200"},
        cwd="/",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """Give a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def options_of(script: str) -> set[str]:
    """Give every option of a script and its subcommands, but for --help."""
    command = script.replace("-", "_")
    if script in DJANGO:
        parser = load_command_class(get_commands()[command], command).create_parser("", command)
    elif script == "hosting-agent":
        parser = import_module("agent.cli")._parser()
    else:
        return set(OPTION.findall(help_of(script))) - {"--help"}
    found = {option for one in parsers(parser) for action in one._actions for option in action.option_strings}
    hidden = {*load_command_class("audit", "hosting_audit").suppressed_base_arguments, "--help", "-h"}
    shown = {option for option in found if option.startswith("--")} - hidden
    return shown - {"--skip-checks"}


def test_every_script_is_described_and_no_other() -> None:
    assert set(sections(page("commands.md"))) == set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_how_it_is_used(script: str) -> None:
    assert help_of(script).startswith(f"usage: {script}")


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_option_of_a_script_is_described_and_no_other(script: str) -> None:
    assert set(OPTION.findall(sections(page("commands.md"))[script])) == options_of(script)
