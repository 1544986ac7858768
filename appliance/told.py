"""What is kept in the memory of the web's process: readings, who was heard, what browsers are told. A call anywhere else is said to that process.

Where there is only one process, as in tests and in `manage.py`, the call is just made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module, and what it is called with: all of it can be pickled."""


class Web(Protocol):
    """The web's process, as the others see it."""

    def tell(self, call: Call) -> None:
        """Said soon, before whatever is answered after it. Never blocks."""

    def ask(self, call: Call) -> Any:
        """What the call returns there; None when it cannot be asked. Blocks for a moment."""


web: Web | None = None
"""None: this is the web's process, or the only one."""


def in_web(function: Callable[P, None]) -> Callable[P, None]:
    """Called by position only."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        if web is None:
            function(*args, **kwargs)
        else:
            web.tell((wrapper, args))

    return wrapper


def in_web_too(function: Callable[P, None]) -> Callable[P, None]:
    """Here, and there as well."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        function(*args, **kwargs)
        if web is not None:
            web.tell((wrapper, args))

    return wrapper


def known_to_web(nothing: Callable[[], R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`nothing`: what it is while that process is away."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            if web is None:
                return function(*args, **kwargs)
            found: R | None = web.ask((wrapper, args))
            return nothing() if found is None else found

        return wrapper

    return decorate
