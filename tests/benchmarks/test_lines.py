"""Each benchmark, with tiny sizes: its lines are whole, it leaves nothing behind. No speed is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environment import DATABASE
from tests.processes import ROOT

METRICS = {
    "enqueue": {"one_by_one", "one_transaction"},
    "drain": {"started", "settled", "worker_cpu", "started_twice"},
    "latency": {"p50", "p95", "p99", "most"},
    "backlog": {"started", "settled", "worker_cpu", "started_twice", "standing_run", "claim_p50"},
    "idle": {"worker_cpu", "memory"},
    "crash": {"killed_to_next_start", "killed_to_all_ended", "started_twice", "lost"},
}
SIZES = {
    "idle": ("--seconds", "0.5"),
    "backlog": ("--jobs", "5", "--kind", "blocked", "--rows", "0", "20"),
    "crash": ("--jobs", "20"),
}


def run(name: str, folder: Path) -> list[dict[str, Any]]:
    """Run a benchmark with its files in this folder and give its lines."""
    where = ["--database", DATABASE]
    if DATABASE == "postgresql":
        where += ["--url", os.environ["CHP_TEST_POSTGRESQL_URL"]]
    environment = {**os.environ, "TMPDIR": str(folder), "CHP_POLL_SECONDS": "0.1"}
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, *where, *SIZES.get(name, ("--jobs", "5"))],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("name", METRICS)
def test_a_benchmark_tells_its_figures_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    lines = run(name, tmp_path)
    assert {line["metric"] for line in lines} >= METRICS[name]
    for line in lines:
        assert set(line) == {"benchmark", "database", "params", "metric", "value", "unit"}
        assert (line["benchmark"], line["database"]) == (name, DATABASE)
        assert isinstance(line["value"], float), line
        assert {"python", "django", "database_version", "load"} <= set(line["params"])
    exact = {"started_twice", "standing_run"} if name != "crash" else {"lost"}
    assert {line["value"] for line in lines if line["metric"] in exact} <= {0.0}
    assert list(tmp_path.iterdir()) == []
