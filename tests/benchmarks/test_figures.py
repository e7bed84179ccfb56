"""What is made of numbers: percentiles, rates, and the peers' ratios."""

import json
from typing import Any

from benchmarks.figures import percentile, rate
from benchmarks.peer_ratios import STANDING, Results, comparisons


def line(peer: str, workload: str, metric: str, value: float, **params: object) -> dict[str, Any]:
    """Give a line as the harness prints it."""
    return {
        "peer": peer,
        "backend": "sqlite",
        "workload": workload,
        "params": {"measure": "B", **params},
        "metric": metric,
        "value": value,
    }


def ratios(results: Results, measure: str) -> dict[str, Any]:
    """Give the ratios on SQLite by name."""
    told = [json.loads(results.line(asked)) for asked in comparisons([measure])]
    return {ratio["metric"]: ratio["value"] for ratio in told if ratio["database"] == "sqlite"}


def test_a_percentile_lies_between_the_closest_ranks() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([1.0], 99) == 1.0
    assert percentile([], 50) is None


def test_a_rate_needs_time() -> None:
    assert rate(10, 2.0) == 5.0
    assert rate(10, 0.0) is None


def test_a_ratio_is_of_medians_and_of_the_best_of_each() -> None:
    results = Results()
    for value in (100.0, 300.0, 200.0):
        results.take(line("chp", "drain_1_worker_best", "jobs_per_s", value))
    results.take(line("django-tasks-db", "drain_1_worker_best", "jobs_per_s", 50.0))
    results.take(line("django-tasks-db", "drain_2_workers", "jobs_per_s", 80.0))
    told = ratios(results, "B")
    assert told["drain_1_worker_best_jobs_per_s"] == 4.0
    assert told["drain_best_jobs_per_s"] == 2.5
    assert told["drain_2_workers_jobs_per_s"] is None


def test_what_is_left_beside_rows_is_by_the_same_systems_empty_queue() -> None:
    results = Results()
    for rows, value in ((0, 200.0), (STANDING, 150.0)):
        results.take(line("chp", "backlog", "jobs_per_s", value, kind="future", rows=rows))
    (ratio,) = [
        told
        for told in (json.loads(results.line(asked)) for asked in comparisons(["D"]))
        if told["value"] is not None
    ]
    assert (ratio["value"], ratio["params"]["other"]["rows"]) == (0.75, 0)


def test_a_failed_run_is_named() -> None:
    results = Results()
    results.take(line("chp", "failed", "failed", 1, why="no database"))
    assert results.failed == ["chp on sqlite, measure B: no database"]
