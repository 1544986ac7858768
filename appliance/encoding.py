"""JSON as REST and feed write it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder


def encoded(data: Any) -> bytes:
    return orjson.dumps(data, default=JSONEncoder().default, option=orjson.OPT_NON_STR_KEYS)


def moment(value: datetime) -> str:
    """As DRF writes a time in UTC."""
    return value.isoformat().replace("+00:00", "Z")


class FastJSONRenderer(JSONRenderer):
    """DRF's own takes as long for a page of rows as everything else together."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else encoded(data)
