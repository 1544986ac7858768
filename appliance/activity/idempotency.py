"""Idempotency keys: a repeated request returns the response of the first one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.models import ApiToken
from appliance.activity.models import IdempotencyKey
from appliance.api.errors import ApplianceError, Code
from appliance.db.prepared import Select, insert
from appliance.db.writer import write_transaction

MAX_KEY_LENGTH = 200

FIND_KEY = Select(lambda user_id, key: IdempotencyKey.objects.filter(user_id=user_id, key=key))


def idempotent(
    request: Request,
    effect: Callable[[], tuple[int, dict[str, Any]]],
    *,
    secrets: Collection[str] = (),
    authorize: Callable[[], object] = lambda: None,
    authority: str = "",
) -> Response:
    """Run `effect` once for an Idempotency-Key and return its status and body as a response.

    The key commits in the same transaction as the effect. The stored digest of the request
    leaves out the fields named in `secrets`. Without the header `effect` always runs.

    `authorize` raises if the caller may not see the response, also one that is stored from a time
    when they might. An operation that cannot tell passes a digest of what the caller may do as
    `authority`: the key then stands for a request with the same roles.
    """
    key, user = key_of(request), request_user(request)
    data = (
        {k: v for k, v in request.data.items() if k not in secrets}
        if isinstance(request.data, dict)
        else request.data
    )
    content = [request.path, data, *scopes_of(request), *([authority] if authority else [])]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    @write_transaction
    def run() -> tuple[int, dict[str, Any]]:
        if not key:
            return effect()
        return run_once(user_id=user.pk, key=key, digest=digest, effect=effect, authorize=authorize)

    status, body = run()
    return Response(body, status=status)


def key_of(request: Request) -> str:
    """Return the Idempotency-Key of a request, empty if it has none.

    Raises ApplianceError INVALID for a longer one, of which a part could equal another key.
    """
    key = request.headers.get("Idempotency-Key") or ""
    if len(key) > MAX_KEY_LENGTH:
        raise ApplianceError(
            Code.INVALID, f"Idempotency-Key has at most {MAX_KEY_LENGTH} characters."
        )
    return key


def scopes_of(request: Request) -> list[str]:
    """Return the scopes of the caller's token: another token must not get its response."""
    return request.auth.scopes if isinstance(request.auth, ApiToken) else []


def run_once(
    *,
    user_id: UUID,
    key: str,
    digest: str,
    effect: Callable[[], tuple[int, dict[str, Any]]],
    authorize: Callable[[], object],
) -> tuple[int, dict[str, Any]]:
    """Return the stored response of this key after `authorize`, or run `effect` and store its own.

    Must be called inside a transaction. Raises ApplianceError with IDEMPOTENCY_MISMATCH if the
    key was used with another digest.
    """
    stored = FIND_KEY.first(user_id=user_id, key=key)
    if stored is not None:
        if stored.request_sha256 != digest:
            raise ApplianceError(
                Code.IDEMPOTENCY_MISMATCH,
                "This Idempotency-Key was used for a different request, or with other roles; use a "
                "new key.",
            )
        authorize()
        return stored.status, stored.answer
    status, body = effect()
    insert(
        IdempotencyKey(user_id=user_id, key=key, request_sha256=digest, status=status, answer=body)
    )
    return status, body
