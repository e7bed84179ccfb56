"""Pages by key: a page costs the same however long the list is, and nothing is counted."""

from rest_framework.pagination import CursorPagination


class KeysetPagination(CursorPagination):
    """Newest first by primary key; `page_size` may be asked for, up to 200."""

    ordering = "-pk"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
