"""The reference pages say what the code says: every name, no other names, and the same values."""

import re
import runpy
from typing import Any

import pytest
from environs import Env

from agent.actions.table import ACTIONS
from agent.declarations import schema
from agent.declarations.schema import Declaration
from agent.declarations.table import DECLARATIONS
from agent.system import SYSTEM
from api.urls import urlpatterns
from chp_site import environment
from chp_site.operations import OPERATIONS
from jobs.operation import Operation
from tests.architecture.source import ROOT

REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def sections(text: str) -> dict[str, str]:
    """Give the text below each heading of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """Give the cells of the tables, heads left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {index for index, row in enumerate(cells) if set("".join(row)) <= set("- ")}
    return [row for index, row in enumerate(cells) if index not in heads and index + 1 not in heads]


class Recorder:
    """Stands before the reader of settings and notes what is asked of it."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.defaults: dict[str, object] = {}
        self.bounds: dict[str, str] = {}

    def __getattr__(self, kind: str) -> Any:
        def read(name: str, default: object) -> Any:
            self.defaults[name] = default
            return getattr(self.env, kind)(name, default)

        return read

    def bounded(self, name: str, default: float, lowest: float, highest: float) -> float:
        self.bounds[name] = f"{lowest:.15g} to {highest:.15g}"
        self.defaults[name] = default
        return float(self.env.float(name, default))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Give what chp_site/settings.py asks for."""
    recorder = Recorder(environment.load())
    monkeypatch.setattr(environment, "load", lambda: recorder)
    monkeypatch.setattr(environment, "bounded", lambda env, *rest: recorder.bounded(*rest))
    runpy.run_path(str(ROOT / "chp_site" / "settings.py"))
    return recorder


def documented_settings() -> dict[str, list[str]]:
    text = page("settings.md").partition("## The agent's policy")[0]
    return {row[0].strip("`"): row[1:] for row in rows(text)}


def test_every_variable_of_the_settings_is_described_and_no_other(read: Recorder) -> None:
    assert set(documented_settings()) == {*read.defaults, "CHP_CONFIG"}


def test_the_defaults_of_the_settings_are_the_described_ones(read: Recorder) -> None:
    state, keys = str(read.env.str("CHP_STATE_DIR")), str(read.env.str("CHP_STATE_DIR")) + "/keys"
    described = {name: cells[0].strip("`") for name, cells in documented_settings().items()}
    described.pop("CHP_CONFIG")
    for name, default in read.defaults.items():
        value = (",".join(default) or "empty") if isinstance(default, list) else str(default)
        assert described[name].replace("STATE", state).replace("KEYS", keys) == value, name


def test_the_bounds_of_the_settings_are_the_described_ones(read: Recorder) -> None:
    described = {name: cells[1] for name, cells in documented_settings().items() if cells[1]}
    assert described == read.bounds


def test_every_operation_is_described_and_no_other() -> None:
    assert set(sections(page("operations.md"))) == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_profile_of_an_operation_is_the_described_one(operation: type[Operation]) -> None:
    profile = operation.profile
    described = dict(rows(sections(page("operations.md"))[operation.name]))
    assert described == {
        "category": profile.category.value,
        "lock": profile.lock.value,
        "mutating": "yes" if profile.mutating else "no",
        "priority": profile.priority.name,
        "attempts": str(profile.attempts),
        "pauses between attempts": ", ".join(f"{delay} s" for delay in profile.retry_delays) or "none",
        "timeout": f"{profile.timeout} s",
        "worker lost": profile.on_lost.value,
        "right": operation.right.value,
        "capability": operation.capability.value,
        "plan": "yes" if operation.needs_plan else "no",
        "payload": ", ".join(name for name in operation.payload.model_fields if name != "version") or "none",
    }


def test_every_action_of_the_agent_is_described_and_no_other() -> None:
    assert set(sections(page("agent-actions.md"))) == set(DECLARATIONS)


@pytest.mark.parametrize("declaration", DECLARATIONS.values(), ids=lambda declaration: declaration.action)
def test_the_guarantees_of_an_action_are_the_described_ones(declaration: type[Declaration]) -> None:
    told = schema.describe(declaration)
    (described,) = rows(sections(page("agent-actions.md"))[declaration.action])
    assert described == [
        told["lock"],
        "yes" if told["safe_to_kill"] else "no",
        "yes" if told["needs_root"] else "no",
        f"{told['default_deadline_seconds']} s",
        ", ".join(told["arguments"]) or "none",
    ]


def test_every_declared_action_can_be_done_and_no_other() -> None:
    assert {*ACTIONS, *SYSTEM} == set(DECLARATIONS)
    assert not set(ACTIONS) & set(SYSTEM)


def test_every_action_stands_in_the_file_of_its_name() -> None:
    for action, function in ACTIONS.items():
        assert function.__module__ == f"agent.actions.{action}"


def test_every_address_of_the_api_is_described_and_no_other() -> None:
    table = sections(page("api.md"))["Addresses"]
    described = {row[0].strip("`").partition(" ")[2] for row in rows(table)}
    served = {"/api/v1/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern)) for pattern in urlpatterns}
    assert described == served
