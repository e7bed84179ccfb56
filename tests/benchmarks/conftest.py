"""The benchmarks' tests that need the engine run it with the benchmarks' operations."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from jobs import registry


@pytest.fixture
def bench_operations(settings: Settings) -> Iterator[None]:
    settings.CHP_OPERATIONS = "benchmarks.operations.OPERATIONS"
    registry.operations.cache_clear()
    yield
    registry.operations.cache_clear()
