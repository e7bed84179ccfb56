"""The engine's tests run with the sample operations."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from jobs import registry


@pytest.fixture(autouse=True)
def sample_operations(settings: Settings) -> Iterator[None]:
    settings.CHP_OPERATIONS = "tests.jobs.sample_operations.OPERATIONS"
    settings.MAX_WORKERS = 4
    registry.operations.cache_clear()
    yield
    registry.operations.cache_clear()
