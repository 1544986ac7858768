"""Error codes of each operation, for the OpenAPI document and the error reference."""

from __future__ import annotations

from collections.abc import Iterable

from appliance.api.errors import Code
from appliance.api.views import UNSAFE_METHODS, ApplianceView

NEED_A_USER = {
    Code.UNAUTHENTICATED,
    Code.DENIED,
    Code.TOKEN_NETWORK,
    Code.PASSWORD_CHANGE_REQUIRED,
    Code.SECOND_FACTOR_SETUP_REQUIRED,
}
"""Refusals of users; some operations on the own account lack the last two."""


def codes_of(view: ApplianceView, method: str, path: str) -> list[Code]:
    """Return the codes with which an operation responds, in their general order.

    `internal` and the refusal of a body that is not JSON (status 415) are possible everywhere. A
    test compares the codes of all responses with these (tests/appliance/conftest.py).
    """
    privilege = view.privileges.get(method, "")
    found = {Code.INVALID, Code.BUSY, *view.error_codes.get(method, ())}
    if privilege != "public":
        found |= NEED_A_USER
    if "{" in path or method in UNSAFE_METHODS:
        found.add(Code.NOT_FOUND)
    if method in UNSAFE_METHODS and method not in view.read_only_methods:
        found |= {Code.CONFLICT, Code.DISK_FULL}
    if method in view.version_methods:
        found.add(Code.STALE)
    if method in view.idempotent_methods:
        found.add(Code.IDEMPOTENCY_MISMATCH)
    return in_order(found)


def in_order(codes: Iterable[Code]) -> list[Code]:
    wanted = set(codes)
    return [code for code in Code if code in wanted]
