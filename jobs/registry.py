"""The operations that are installed: read once from the visible table that the composition root names."""

from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from jobs.exceptions import UnknownOperation
from jobs.operation import Operation


@cache
def operations() -> dict[str, Operation]:
    """Give every installed operation by name. Raises ValueError where two claim one name."""
    table: dict[str, Operation] = {}
    for declared in import_string(settings.CHP_OPERATIONS):
        if declared.name in table:
            raise ValueError(f"Two operations are called {declared.name}.")
        table[declared.name] = declared()
    return table


def operation(name: str) -> Operation:
    """Give one operation. Raises UnknownOperation naming the known ones."""
    found = operations().get(name)
    if found is None:
        known = ", ".join(sorted(operations()))
        raise UnknownOperation(f"Unknown job type: {name[:60]}. Installed are: {known}.")
    return found


def known_types() -> list[str]:
    """Give the names that a worker of this installation can run."""
    return sorted(operations())
