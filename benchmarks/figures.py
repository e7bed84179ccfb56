"""Figures: what a benchmark found, and the line that tells it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number with its unit. `value` is None where it could not be had; `params` then say `why`."""

    metric: str
    value: float | None
    unit: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def line(self, benchmark: str, database: str, common: Mapping[str, Any]) -> str:
        """Give the figure as one line of JSON; `common` are the parameters of the whole run."""
        return json.dumps(
            {
                "benchmark": benchmark,
                "database": database,
                "params": {**common, **self.params},
                "metric": self.metric,
                "value": None if self.value is None else float(f"{self.value:.5g}"),
                "unit": self.unit,
            }
        )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Give the value below which `share` percent lie, between the closest ranks; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    position = (len(ordered) - 1) * share / 100
    lower = int(position)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (position - lower)


def rate(count: int, seconds: float) -> float | None:
    """Give `count` per second, None where no time passed."""
    return count / seconds if count > 0 and seconds > 0 else None
