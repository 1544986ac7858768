"""Idempotency keys: a repeated request returns the response of the first one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.models import ApiToken, IdempotencyKey
from appliance.accounts.permissions import token_id_of
from appliance.api.errors import ApplianceError, Code
from appliance.api.serialization import to_json_types
from appliance.db.prepared import Select, insert
from appliance.db.writer import write_transaction
from appliance.runtime.sealing import Purpose, UnreadableSecretError, seal, unseal

MAX_KEY_LENGTH = 200

FIND_KEY = Select(lambda user_id, key: IdempotencyKey.objects.filter(user_id=user_id, key=key))
LOCK_KEY = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"


Effect = Callable[[], tuple[int, dict[str, Any]]]
"""Changes something, and returns the status and body of the response."""
Authorize = Callable[[dict[str, Any]], object]
"""Raises an error if the caller may not see a body that was stored for their earlier request."""


def create_once(
    request: Request,
    create: Callable[[], Mapping[str, Any]],
    *,
    secrets: Collection[str] = (),
    authorize: Authorize = lambda _: None,
    authority: str = "",
    is_secret: bool = False,
) -> Response:
    """Return 201 with the body of a new object that `create` makes. See `idempotent`."""

    def effect() -> tuple[int, dict[str, Any]]:
        return 201, dict(create())

    return idempotent(
        request,
        effect,
        secrets=secrets,
        authorize=authorize,
        authority=authority,
        is_secret=is_secret,
    )


def idempotent(
    request: Request,
    effect: Effect,
    *,
    secrets: Collection[str] = (),
    authorize: Authorize = lambda _: None,
    authority: str = "",
    is_secret: bool = False,
) -> Response:
    """Run `effect` once for an Idempotency-Key and return its status and body as a response.

    The key commits in the same transaction as the effect. The stored digest of the request
    leaves out the fields named in `secrets`. Without the header `effect` always runs.

    `authorize` checks a stored body, which may be from a time when the caller might see it. An
    operation that cannot tell passes a digest of what the caller may do as `authority`: the key
    then stands for a request with the same roles.

    A response with a secret (`is_secret`) is stored sealed, and only for the token that the caller
    has used: another one of the user may have narrower limits.
    """
    key, user = key_of(request), request_user(request)
    data = (
        {k: v for k, v in request.data.items() if k not in secrets}
        if isinstance(request.data, dict)
        else request.data
    )
    authority += str(token_id_of(user)) if is_secret else ""
    content = [request.path, data, *scopes_of(request), *([authority] if authority else [])]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    store = Store(user.pk, key, digest, is_secret)

    @write_transaction
    def run() -> tuple[int, dict[str, Any]]:
        return store.run_once(effect, authorize) if key else effect()

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


@dataclass(frozen=True)
class Store:
    """The place of the response of one key."""

    user_id: UUID
    key: str
    digest: str
    is_secret: bool

    def run_once(self, effect: Effect, authorize: Authorize) -> tuple[int, dict[str, Any]]:
        """Return the stored response after `authorize`, or run `effect` and store its own.

        Must be called inside a transaction. Raises ApplianceError with IDEMPOTENCY_MISMATCH if the
        key was used with another digest, and with BUSY if another appliance uses the key now.
        """
        self.lock()
        stored = FIND_KEY.first(user_id=self.user_id, key=self.key)
        if stored is not None:
            if stored.request_sha256 != self.digest:
                raise mismatch(
                    "This Idempotency-Key was used for a different request, or with other roles"
                )
            body = self.opened(stored.answer)
            authorize(body)
            return stored.status, body
        status, made = effect()
        body = to_json_types(made)
        insert(
            IdempotencyKey(
                user_id=self.user_id,
                key=self.key,
                request_sha256=self.digest,
                status=status,
                answer=self.sealed(body) if self.is_secret else body,
            )
        )
        return status, body

    def lock(self) -> None:
        """Hold the key until the end of the transaction. Raises ApplianceError BUSY, see above.

        Two that both find no stored response would both run the effect, and the unique key would
        fail one of them. A wait would hold the writer thread, and two group commits could wait for
        each other. SQLite has one writer.
        """
        if connection.vendor != "postgresql":
            return
        with connection.cursor() as cursor:
            cursor.execute(LOCK_KEY, [self.owner.decode()])
            if not cursor.fetchone()[0]:
                raise ApplianceError(
                    Code.BUSY,
                    "A request with this Idempotency-Key is in progress; repeat it later.",
                )

    @property
    def owner(self) -> bytes:
        return f"{self.user_id}/{self.key}".encode()

    def sealed(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"sealed": seal(orjson.dumps(body), Purpose.RESPONSE, self.owner)}

    def opened(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return a stored body. Raises ApplianceError for one sealed with another secret key."""
        if not self.is_secret:
            return answer
        try:
            content: dict[str, Any] = orjson.loads(
                unseal(answer["sealed"], Purpose.RESPONSE, self.owner)
            )
        except UnreadableSecretError:
            raise mismatch("The response to this Idempotency-Key cannot be read any more") from None
        return content


def mismatch(problem: str) -> ApplianceError:
    return ApplianceError(Code.IDEMPOTENCY_MISMATCH, f"{problem}; use a new key.")
