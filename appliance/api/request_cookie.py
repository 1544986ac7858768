"""One cookie of a request, read alike by each way into the appliance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.cookies import _unquote
from typing import Any

WHITE_SPACE = " \t"
"""All that RFC 6265 has around a cookie. str.strip() takes more, such as U+00A0."""


def cookie_of(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> str:
    """Return the first value of the cookie with exactly this name; empty if there is none.

    Other cookies are passed over, whatever bytes they have: other applications set them.
    Surrounding double quotes are removed.
    """
    for header in (value for name, value in headers if name == b"cookie"):
        for part in header.decode("latin-1").split(";"):
            name, separator, value = part.partition("=")
            if separator and name.strip(WHITE_SPACE) == wanted:
                return _unquote(value.strip(WHITE_SPACE))
    return ""


def cookie_in(meta: Mapping[str, Any], wanted: str) -> str:
    """Return the cookie of a Django request, from its META.

    Django's own COOKIES strip more white space from names, and the last value wins.
    """
    header = str(meta.get("HTTP_COOKIE", "")).encode("latin-1", "replace")
    return cookie_of([(b"cookie", header)], wanted)
