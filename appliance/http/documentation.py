"""The documentation site at /docs/, built by MkDocs and served without external resources."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase

NOT_BUILT = "The documentation is not built. Build it with ./run or `make docs`."
INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def script_hashes(page: str) -> str:
    """Return the content security policy sources that permit the inline scripts of a page.

    The theme sets the colour scheme by short inline scripts. Hashes permit exactly these.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in INLINE_SCRIPT.findall(page))
    return " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)


@lru_cache(maxsize=256)
def page_policy(path: Path, modified_ns: int) -> str:
    """Return the policy of a page. `modified_ns` invalidates the cache when the file changes."""
    scripts = script_hashes(path.read_text())
    return (
        f"default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "form-action 'self'"
    )


def find_file(path: str) -> Path:
    """Return the file of the site for a URL path.

    Raises Http404 if it lies outside the site, or if no file can have this name.
    """
    site = settings.DOCUMENTATION_DIR.resolve()
    try:
        found = (site / path).resolve()
        found.exists()
    except (OSError, ValueError):  # too long, or with a NUL character
        raise Http404 from None
    if not found.is_relative_to(site):
        raise Http404
    return found


def documentation(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Return a file of the documentation site."""
    found = find_file(path)
    if found.is_dir():
        if path and not path.endswith("/"):
            return HttpResponseRedirect(f"/docs/{path}/")
        found /= "index.html"
    if not found.is_file():
        if not settings.DOCUMENTATION_DIR.is_dir():
            return HttpResponse(NOT_BUILT, status=404, content_type="text/plain")
        raise Http404
    content_type = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
    response = FileResponse(found.open("rb"), content_type=content_type)
    response["Cache-Control"] = "no-cache"
    if found.suffix == ".html":
        policy = page_policy(found, found.stat().st_mtime_ns)
        response["Content-Security-Policy"] = policy
    return response
