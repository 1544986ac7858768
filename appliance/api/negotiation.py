"""Content negotiation of views that answer with a stream or with lines of their own type."""

from __future__ import annotations

from collections.abc import Iterable

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class AnyAccept(BaseContentNegotiation):
    """Takes any `Accept` header: the view answers with its only type, and errors are JSON.

    Clients of event streams send `Accept: text/event-stream`, for which there is no renderer.
    """

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, str(first.media_type)
