"""Reading bodies, within a limit."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from api.problems import BodyTooLarge

MAX_BODY_BYTES = 256 * 1024


class LimitedJSONParser(JSONParser):
    """JSON up to MAX_BODY_BYTES. Longer bodies are refused before they are read."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Give the body's value. Raises BodyTooLarge and ParseError."""
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge(f"The body has more than {MAX_BODY_BYTES} bytes.")
        try:
            return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not JSON: {str(error)[:200]}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
