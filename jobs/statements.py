"""Statements on the way of every job: composed once, read without the ORM, and planned once by a worker.

For a row or two the ORM's composing costs several times what the database does, and on PostgreSQL planning
over the many indexes of jobs costs more than executing.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import NotSupportedError, OperationalError, ProgrammingError, connection
from django.db.models import Model
from psycopg.errors import FeatureNotSupported, InvalidSqlStatementName

M = TypeVar("M", bound=Model)
# A statement with `%s` for its values.
Statement = tuple[str, Sequence[Any]]
# A plan is made anew after so many seconds: tables that were empty may be large by then.
PLAN_SECONDS = 30.0
# Of one connection. The text of a claim depends on which types and servers have room, so there may be many.
MOST_PLANS = 100
_names = count(1)
# Of each connection: by statement, its name there and when it was planned.
_planned: "WeakKeyDictionary[Any, dict[str, tuple[str, float]]]" = WeakKeyDictionary()
_is_worker = False


@contextmanager
def planned_once() -> Iterator[None]:
    """Within this block plans are kept: for processes that say the same again and again."""
    global _is_worker  # noqa: PLW0603 - the one switch, turned by the commands of worker and slot
    _is_worker = settings.CHP_PREPARED_STATEMENTS
    try:
        yield
    finally:
        _is_worker = False


def together(asked: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
    """Execute queries one after another, on PostgreSQL in one round trip; give the rows of each.

    Each sees what was committed when it begins, as it would alone: one that waits for a lock comes first.
    """
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            return [_rows(cursor, sql, values) for sql, values in asked]
        texts = [_kept(cursor, sql, values) for sql, values in asked]
        _execute(cursor, "; ".join(texts), [value for _, values in asked for value in values])
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        return found


def _rows(cursor: Any, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor.execute(sql, values)
    return list(cursor.fetchall())


def run(cursor: Any, sql: str, values: Sequence[Any] = ()) -> None:
    """Execute one statement with `%s` for its values; where plans are kept, by a plan made before.

    Only for statements whose text comes in a few forms.
    """
    _execute(cursor, _kept(cursor, sql, values), values)


def _execute(cursor: Any, sql: str, values: Sequence[Any]) -> None:
    try:
        cursor.execute(sql, values)
    except (NotSupportedError, ProgrammingError) as error:
        if not isinstance(error.__cause__, (FeatureNotSupported, InvalidSqlStatementName)):
            raise
        # A column has changed its type under a kept plan, or somebody has taken the plans away. Whoever asks
        # again has a new connection by then.
        raise OperationalError(f"a kept plan no longer fits: {error}") from error


def _kept(cursor: Any, sql: str, values: Sequence[Any]) -> str:
    """Give the statement that executes the kept plan of this one; where none are kept, itself."""
    if not _is_worker or connection.vendor != "postgresql":
        return sql
    marks = ", ".join(["%s"] * len(values))
    return f"EXECUTE {_plan(cursor, sql)}{f'({marks})' if values else ''}"


def _plan(cursor: Any, sql: str) -> str:
    plans = _planned.setdefault(connection.connection, {})
    name, since = plans.get(sql, ("", 0.0))
    now = time.monotonic()
    if name and now - since < PLAN_SECONDS:
        return name
    if name:
        _forget(cursor, plans, sql)
    elif len(plans) >= MOST_PLANS:
        _forget(cursor, plans, min(plans, key=lambda text: plans[text][1]))
    name = f"chp_{next(_names)}"
    first, *rest = sql.split("%s")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    cursor.execute(f"PREPARE {name} AS {numbered}")
    plans[sql] = (name, now)
    return name


def _forget(cursor: Any, plans: dict[str, tuple[str, float]], sql: str) -> None:
    name, _ = plans.pop(sql)
    cursor.execute(f"DEALLOCATE {name}")


def among(keys: Collection[int]) -> tuple[str, list[Any]]:
    """Give the condition that a column is one of these keys, to be put behind its name, and its values.

    On PostgreSQL the text does not depend on how many they are.
    """
    if connection.vendor == "postgresql":
        return "= ANY(%s::bigint[])", [list(keys)]
    return f"IN ({', '.join(['%s'] * len(keys))})", list(keys)


class Columns(Generic[M]):
    """The columns of a model in a statement, and how an instance is made of their values."""

    def __init__(self, model: type[M], alias: str = "") -> None:
        self._model = model
        fields = model._meta.concrete_fields
        self._names = [field.attname for field in fields]
        self._expressions = [field.cached_col for field in fields]
        self._converters: list[tuple[int, Any, Callable[..., Any]]] | None = None
        self.table = model._meta.db_table
        self.sql = ", ".join(f"{alias or self.table}.{field.column}" for field in fields)
        self.width = len(fields)

    def instance(self, values: Sequence[Any]) -> M:
        """Give the instance that a row holds: as many values as the columns, in their order."""
        row = list(values)
        for position, expression, convert in self._of_database():
            row[position] = convert(row[position], expression, connection)
        return self._model.from_db(connection.alias, self._names, row)

    def _of_database(self) -> list[tuple[int, Any, Callable[..., Any]]]:
        if self._converters is None:
            self._converters = [
                (position, expression, convert)
                for position, expression in enumerate(self._expressions)
                for convert in (
                    *connection.ops.get_db_converters(expression),
                    *expression.get_db_converters(connection),
                )
            ]
        return self._converters
