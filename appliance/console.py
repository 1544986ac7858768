"""Serves the console: one page for every path that is not the API's, and the policy under which browsers run it."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
DOCS_POLICY = f"{POLICY}; style-src 'self' 'unsafe-inline'"
"""Swagger's page sets styles in its text; it has no scripts of that kind."""

NOT_BUILT = "<!doctype html><title>Busbar</title><p>The console is not built here. `./run` builds it; the API is at <a href=/api/docs>/api/docs</a>.</p>"


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = (
            DOCS_POLICY if request.path.startswith("/api/docs") else POLICY
        )
        return response

    return middleware


def console(request: HttpRequest, path: str = "") -> HttpResponse:
    """The page itself; its scripts and styles have hashed names and are served beside it."""
    page = settings.CONSOLE_DIR / "index.html"
    response = HttpResponse(page.read_text() if page.exists() else NOT_BUILT)
    response["Cache-Control"] = "no-cache"
    return response
