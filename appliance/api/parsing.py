"""Parsing of JSON that clients send: one parser for views and for the login gate.

It accepts UTF-8 only, whatever charset the request names, so all readers of a body see the same
text. It rejects what could be read but not written again: lone surrogates, infinite numbers, and
nesting that exceeds the stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser


def parse_json(text: bytes | str) -> Any:
    """Return the value of a JSON text. Raises ValueError."""
    return orjson.loads(text)


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            return parse_json(stream.read())
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from None
