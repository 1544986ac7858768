"""Execution paths of requests. `execution_of` chooses them, and LoginGate one of a directory.

READ: the HTTP server process handles the request on a read thread.
WRITE: the controller handles it on a request thread; services submit their writes to the writer
    thread and wait for the commit.
INLINE_WRITE: the controller handles the whole request on the writer thread, in the transaction of
    the current batch. Views that do nothing slow declare it (`ApplianceView.inline_write`): threads
    that take turns wait longer for the GIL than they work.
RENEWAL, LOGIN, PROVIDER: as WRITE, on threads of their own (`ApplianceView.renewal_methods`,
    `login_methods` and `provider_methods`).
DIRECTORY_LOGIN: a LOGIN whose password the directory checks, on threads of its own (login_gate.py).
"""

from __future__ import annotations

import enum

from appliance.api.views import ApplianceView
from appliance.http.request_scope import Scope, match_of

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Execution(enum.Enum):
    READ = "read"
    WRITE = "write"
    INLINE_WRITE = "inline_write"
    RENEWAL = "renewal"
    LOGIN = "login"
    DIRECTORY_LOGIN = "directory_login"
    PROVIDER = "provider"


def execution_of(scope: Scope) -> Execution:
    method = scope["method"]
    view = None if method in SAFE_METHODS else view_of(scope)
    if view is None:
        return Execution.READ
    if method in view.read_only_methods and not scope.get("query_string"):
        return Execution.READ  # with a query it may be a dry run, whose parameter may be encoded
    if method in view.login_methods:
        return Execution.LOGIN
    if method in view.provider_methods:
        return Execution.PROVIDER
    if method in view.renewal_methods:
        return Execution.RENEWAL
    return Execution.INLINE_WRITE if view.inline_write else Execution.WRITE


def requires_token(scope: Scope) -> bool:
    """Return whether the path has a view that rejects the method without a valid token."""
    view = view_of(scope)
    return view is not None and view.privileges.get(scope["method"]) != "public"


def view_of(scope: Scope) -> type[ApplianceView] | None:
    """Return the view class of a request, or None for paths without an ApplianceView."""
    match = match_of(scope)
    found = getattr(match.func, "cls", None) if match else None
    return found if found is not None and issubclass(found, ApplianceView) else None
