"""Origin and refusal of a request, for the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rest_framework.request import Request

from appliance.api.operation_id import operation_id
from appliance.api.refusals import Refusal, attempted_account
from appliance.db import origin
from appliance.db.identifiers import uuid7
from appliance.db.origin import Origin

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
DENIALS = frozenset({401, 403, 404})
"""Statuses of reads that are recorded. Of changes all from 400 to 499 are."""
KINDS = {
    "binding_id": "role_binding",
    "member_id": "group_member",
    "key_id": "ssh_host_key",
}
"""Kind of the object by parameter of the route, where it is not the parameter's name."""


def origin_of(request: Request) -> Origin:
    """Return the origin of a request's changes. Operations of a bulk request share its id.

    Public operations have no user and are not authenticated here.
    """
    outer, token = origin.current(), getattr(request, "_auth", None)
    return Origin(
        actor=getattr(getattr(request, "_user", None), "username", ""),
        token_id=getattr(token, "pk", None),
        token_name=getattr(token, "name", ""),
        address=str(request.META.get("REMOTE_ADDR", "")),
        action=action_of(request),
        request_id=outer.request_id if outer is not None else uuid7(),
    )


def action_of(request: Request) -> str:
    match = request._request.resolver_match
    return operation_id(request.method or "", match.route)[:100] if match else ""


def refusals_of(
    request: Request, response: Any, is_login: bool, parameters: Mapping[str, Any]
) -> list[Refusal]:
    """Return the refusal of a request and those of the operations in it.

    A refusal is a change with a status from 400 to 499, or a read that was denied. Requests
    without credentials count only if they are logins: they name no user.
    """
    inner: list[Refusal] = getattr(request._request, "inner_refusals", [])
    status = response.status_code
    if not 400 <= status < 500 or (request.method in SAFE_METHODS and status not in DENIALS):
        return inner
    user, token = getattr(request, "_user", None), getattr(request, "_auth", None)
    actor = getattr(user, "username", "")
    if is_login and not actor:
        proved = origin.current()  # a login that lacks a second factor has a user already
        actor = attempted_account(getattr(request, "_full_data", None))
        actor = actor or (proved.actor if proved is not None else "")
    elif user is None and not has_credentials(request):
        return inner
    made_by = origin.current()
    refusal = Refusal(
        actor=actor,
        address=str(request.META.get("REMOTE_ADDR", ""))[:64],
        code=str((getattr(response, "data", None) or {}).get("code", status)),
        action=action_of(request),
        token_id=str(getattr(token, "pk", "") or ""),
        token_name=getattr(token, "name", ""),
        request_id=str((made_by.request_id if made_by is not None else None) or ""),
        **object_of(parameters),
    )
    return [*inner, refusal]


def has_credentials(request: Request) -> bool:
    return "HTTP_AUTHORIZATION" in request.META or bool(request.COOKIES)


def object_of(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return kind and id of the last object that the route names."""
    found = {}
    for name, value in parameters.items():
        if isinstance(value, UUID):
            kind = KINDS.get(name, name.removesuffix("_id"))
            found = {"object_kind": kind, "object_id": str(value)}
    return found
