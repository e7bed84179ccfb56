"""The engine's tests run with operations and limits of their own."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from jobs import registry
from tests.engine.limits import BY_TYPE, OVERALL


@pytest.fixture(autouse=True)
def engine_operations(settings: Settings) -> Iterator[None]:
    settings.CHP_OPERATIONS = "tests.engine.operations.OPERATIONS"
    settings.CHP_TYPE_LIMITS = {**settings.CHP_TYPE_LIMITS, **BY_TYPE}
    settings.MAX_WORKERS = OVERALL
    registry.operations.cache_clear()
    yield
    registry.operations.cache_clear()
