"""Idempotency-Key at the REST edge: a repeated request finds its first answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.services import remember_answer
from appliance.rest import caller
from appliance.writer import writes


def idempotent(
    request: Request,
    effect: Callable[[], tuple[int, dict[str, Any]]],
    *,
    secrets: Collection[str] = (),
) -> Response:
    """Runs `effect` once for a key; the key's row commits in the same transaction. No digest is kept of the fields named in `secrets`."""
    key, user = request.headers.get("Idempotency-Key"), caller(request)
    data = (
        {k: v for k, v in request.data.items() if k not in secrets}
        if isinstance(request.data, dict)
        else request.data
    )
    digest = hashlib.sha256(
        json.dumps([request.path, data], sort_keys=True, default=str).encode()
    ).hexdigest()

    @writes
    def run() -> tuple[int, dict[str, Any]]:
        if not key:
            return effect()
        return remember_answer(user_id=user.pk, key=key[:200], digest=digest, effect=effect)

    status, body = run()
    return Response(body, status=status)
