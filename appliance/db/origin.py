"""The origin of changes: who makes them, from where, with which request.

A view sets it on its thread. `write_transaction` passes it to the writer thread, where the audit
records read it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Origin:
    actor: str = ""
    """Username, or what acts in place of a user; empty before a sign-in."""
    token_id: UUID | None = None
    token_name: str = ""
    address: str = ""
    action: str = ""
    """Operation id of the OpenAPI document."""
    request_id: UUID | None = None


_current: ContextVar[Origin | None] = ContextVar("origin", default=None)


def current() -> Origin | None:
    """Return the origin of this thread's changes, or None if the appliance itself makes them."""
    return _current.get()


def set_current(origin: Origin) -> None:
    """Set the origin until the enclosing `scope` ends."""
    _current.set(origin)


def act_as(actor: str) -> None:
    """Name the actor of a request that has proved its identity only now."""
    if (origin := _current.get()) is not None:
        _current.set(replace(origin, actor=actor))


@contextmanager
def scope(origin: Origin | None) -> Iterator[None]:
    """Make changes with this origin, and restore the previous one at the end."""
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def carry(work: Callable[..., R]) -> Callable[..., R]:
    """Return work that runs with the caller's present origin, on any thread."""
    origin = _current.get()
    if origin is None:
        return work

    @functools.wraps(work)
    def run(*args: object, **kwargs: object) -> R:
        with scope(origin):
            return work(*args, **kwargs)

    return run
