"""The console's page and the content security policy of all responses."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
API_DOCS_POLICY = f"{POLICY}; style-src 'self' 'unsafe-inline'"
"""Swagger UI sets styles inline; it has no inline scripts."""

NOT_BUILT = (
    "<!doctype html><title>Busbar</title><p>The console is not built. Build it with `./run`. "
    "The API documentation is at <a href=/api/docs>/api/docs</a>.</p>"
)


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Django middleware that sets the Content-Security-Policy header."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        policy = API_DOCS_POLICY if request.path.startswith("/api/docs") else POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    return middleware


def console(request: HttpRequest, path: str = "") -> HttpResponse:
    """Return the console's page. WhiteNoise serves its scripts and styles under hashed names."""
    page = settings.CONSOLE_DIR / "index.html"
    response = HttpResponse(page.read_text() if page.exists() else NOT_BUILT)
    response["Cache-Control"] = "no-cache"
    return response
