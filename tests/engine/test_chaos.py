"""Chaos for a while, in a program with an installation of its own; nothing may come of it.

`CHP_CHAOS_SECONDS` says for how long; `CHP_CHAOS_SEED` repeats the decisions of a run, which prints its seed.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engine.pool import ROOT
from tests.environment import DATABASE

SECONDS = float(os.environ.get("CHP_CHAOS_SECONDS", "30"))
SEED = int(os.environ.get("CHP_CHAOS_SEED", secrets.randbelow(10**6)))
# Beside the chaos itself: making the installation, warming up, settling, leaving. Each is bounded there.
AROUND_SECONDS = 300.0
TROUBLES = {
    "kill_worker",
    "kill_slot",
    "freeze_worker",
    "freeze_slot",
    "drain_worker",
    "kill",
    "hold",
    "cut",
    "restart",
}


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    arguments = ["--database", DATABASE, "--seconds", str(SECONDS), "--seed", str(SEED)]
    # Short, since a socket is made below it.
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.chaos", *arguments, "--folder", str(tmp_path / "c")],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    if process.poll() is None:
        # Told before it is killed, so that it ends what it has started.
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.wait()


def test_nothing_comes_of_chaos(chaos: "subprocess.Popen[str]") -> None:
    """Queue A4, A5, A7, A10, B1, B3, B9, B10, C1, C12, H4, H8, J4: every history is whole."""
    output, _ = chaos.communicate(timeout=SECONDS + AROUND_SECONDS)
    print(output)
    report = _report(output)
    assert report["wrong"] == [], f"seed {SEED}"
    assert chaos.returncode == 0
    assert report["states"].keys() <= {"SUCCESS", "FAILED", "CANCELLED", "RESOLVED"}
    assert report["states"]["SUCCESS"] > 0
    assert report["happened"].keys() & TROUBLES


def _report(output: str) -> dict[str, Any]:
    last = output.strip().splitlines()[-1]
    if not last.startswith("{"):
        raise AssertionError(f"the chaos of seed {SEED} gave no report: {last}")
    found: dict[str, Any] = json.loads(last)
    return found
