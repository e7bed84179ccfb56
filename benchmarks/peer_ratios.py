"""What the harness's lines say together: the median of each figure over the passes, ours by the peers'."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS = "chp"
# The harness's names of databases, and ours.
DATABASES = {"postgres": "postgresql", "sqlite": "sqlite"}
# Whom we are measured against, each on a database that both know.
RIVALS = (("procrastinate", "postgres"), ("django-tasks-db", "postgres"), ("django-tasks-db", "sqlite"))
KINDS = ("future", "lowprio")
STANDING = 1_000_000
ONE_WORKER, TWO_WORKERS = "drain_1_worker_best", "drain_2_workers"


@dataclass(frozen=True)
class Key:
    """Which figure of the harness."""

    peer: str
    backend: str
    workload: str
    metric: str
    kind: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Comparison:
    """One ratio: the best of `mine` by the best of `other`. `better` says which way is good."""

    metric: str
    measure: str
    mine: Sequence[Key]
    other: Sequence[Key]
    unit: str = "jobs/s"
    better: str = "higher"


@dataclass
class Results:
    """The values of every figure over the passes, and what share of the machine others used, in percent."""

    values: dict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    params: dict[Key, dict[str, Any]] = field(default_factory=dict)
    noise: dict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)

    def take(self, line: dict[str, Any]) -> None:
        """Take one line of the harness."""
        peer, backend, metric, value = line["peer"], line["backend"], line["metric"], line["value"]
        params = line["params"]
        if metric == "others_cpu_pct":
            self.noise[(peer, backend, params["measure"])].append(round(value, 1))
        elif metric == "failed":
            self.failed.append(f"{peer} on {backend}, measure {params['measure']}: {params['why']}")
        elif value is not None:
            key = Key(peer, backend, line["workload"], metric, params.get("kind"), params.get("rows"))
            self.values[key].append(value)
            self.params[key] = params

    def line(self, asked: Comparison) -> str:
        """Give a comparison as one line of JSON; the value is null where a side is missing."""
        mine, other = self._side(asked.mine, asked), self._side(asked.other, asked)
        known = mine["median"] is not None and other["median"]
        return json.dumps(
            {
                "benchmark": "peers",
                "database": DATABASES[asked.mine[0].backend],
                "params": {"of": asked.unit, "better": asked.better, "mine": mine, "other": other},
                "metric": asked.metric,
                "value": round(mine["median"] / other["median"], 3) if known else None,
                "unit": "ratio",
            }
        )

    def _side(self, keys: Sequence[Key], asked: Comparison) -> dict[str, Any]:
        """Give the best of these figures, with what tells its runs from others."""
        medians = {key: statistics.median(self.values[key]) for key in keys if self.values.get(key)}
        choose = max if asked.better == "higher" else min
        best = choose(medians, key=medians.__getitem__, default=keys[0])
        params = self.params.get(best, {})
        told = {name: params.get(name) for name in ("rows", "processes", "concurrency", "version", "full")}
        return {
            "peer": best.peer,
            "workload": best.workload,
            "median": medians.get(best),
            "passes": self.values.get(best, []),
            "others_cpu_pct": self.noise.get((best.peer, best.backend, asked.measure), []),
            **{name: value for name, value in told.items() if value is not None},
        }


def comparisons(measures: Sequence[str]) -> Iterator[Comparison]:
    """Give what is compared of these measures of the harness."""
    for measure in measures:
        if measure == "D":
            yield from _beside_standing_rows()
            continue
        for peer, backend in RIVALS:
            if measure == "B":
                yield from _drains(peer, backend)
            elif measure == "C":
                yield from _latencies(peer, backend)


def _drains(peer: str, backend: str) -> Iterator[Comparison]:
    for workload in (ONE_WORKER, TWO_WORKERS):
        for metric in ("jobs_per_s", "settled_jobs_per_s"):
            mine, other = ([Key(who, backend, workload, metric)] for who in (OURS, peer))
            yield Comparison(f"{workload}_{metric}", "B", mine, other)
    mine, other = (
        [Key(who, backend, workload, "jobs_per_s") for workload in (ONE_WORKER, TWO_WORKERS)]
        for who in (OURS, peer)
    )
    yield Comparison("drain_best_jobs_per_s", "B", mine, other)


def _latencies(peer: str, backend: str) -> Iterator[Comparison]:
    for metric in ("p50_ms", "p95_ms"):
        mine, other = ([Key(who, backend, "pickup", metric)] for who in (OURS, peer))
        yield Comparison(f"pickup_{metric}", "C", mine, other, unit="ms", better="lower")


def _beside_standing_rows() -> Iterator[Comparison]:
    """What is left of the drain's speed beside the rows: each system by its own empty queue."""
    for who, backend in [*((OURS, backend) for backend in DATABASES), *RIVALS]:
        for kind in KINDS:
            beside, alone = (
                [Key(who, backend, "backlog", "jobs_per_s", kind, rows)] for rows in (STANDING, 0)
            )
            yield Comparison(f"drain_beside_{STANDING}_{kind}", "D", beside, alone)
