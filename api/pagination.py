"""Pages by key: a page costs the same however long the list is, and nothing is counted."""

import re
from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination

KEY = re.compile(r"[0-9]{1,18}")


class KeysetPagination(CursorPagination):
    """Newest first by primary key; `page_size` may be asked for, up to 200."""

    ordering = "-pk"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Any) -> Any:
        """Read where the page begins. Raises NotFound for what is no cursor of ours."""
        cursor = super().decode_cursor(request)
        position = None if cursor is None or cursor.position is None else str(cursor.position)
        if position is not None and not KEY.fullmatch(position):
            raise NotFound(self.invalid_cursor_message)
        return cursor
