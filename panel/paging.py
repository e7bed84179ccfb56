"""Pages by key: a page costs the same however long the list is, and nothing is counted."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.exceptions import BadRequest
from django.db.models import Model, QuerySet
from django.http import HttpRequest

PAGE_SIZE = 25
MOST_DIGITS = 18

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class Page(Generic[Row]):
    """Some rows, newest first, and the key that the next page begins before (None on the last one)."""

    rows: list[Row]
    next_before: int | None
    is_first: bool


def page_of(request: HttpRequest, rows: QuerySet[Row]) -> Page[Row]:
    """Give the page that `?before=` asks for. Raises BadRequest where that is no key."""
    before = number_in(request, "before")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.order_by("-pk")[: PAGE_SIZE + 1])
    shown = found[:PAGE_SIZE]
    return Page(shown, shown[-1].pk if len(found) > PAGE_SIZE else None, before is None)


def number_in(request: HttpRequest, name: str) -> int | None:
    """Give a whole number of the query string, None for none. Raises BadRequest for anything else."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise BadRequest(f"{name} must be a whole number.")
    return int(text)


def choice_in(request: HttpRequest, name: str, choices: list[tuple[str, Any]]) -> str:
    """Give a value of the query string, empty for none. Raises BadRequest for an unknown one."""
    text = request.GET.get(name, "")
    if text and text not in {value for value, _ in choices}:
        raise BadRequest(f"{name} must be one of those offered.")
    return text
