"""The `wait` parameter: responses delayed until an object leaves transient states.

The HTTP server process delays the response without a thread, also when the controller made it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.api.errors import ApplianceError, Code

MAX_WAIT_SECONDS = 60.0
WAIT_PARAMETER = OpenApiParameter(
    "wait",
    {"type": "number", "format": "double", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
    description="Delay the response until the operation is over, for at most this many seconds "
    f"({MAX_WAIT_SECONDS:.0f} at most).",
)


ReadState = Callable[[UUID], str | None]
"""Reads the state of an object from the database; None if it does not exist."""

_state_readers: dict[str, ReadState] = {}


def register_waitable(kind: str, read_state: ReadState) -> None:
    """Let requests wait for objects of this kind, which have the path /api/v1/KINDs/ID."""
    _state_readers[kind] = read_state


@dataclass(frozen=True)
class Wait:
    """A wait for an object to leave these states."""

    kind: str
    object_id: UUID
    states: frozenset[str]
    seconds: float

    def is_over(self) -> bool:
        """Read the database."""
        return _state_readers[self.kind](self.object_id) not in self.states

    @property
    def path(self) -> str:
        """Path of the object, whose representation becomes the body of the response."""
        return f"/api/v1/{self.kind}s/{self.object_id}"

    def to_header(self) -> str:
        return f"{self.kind} {self.object_id} {self.seconds!r} {','.join(sorted(self.states))}"

    @classmethod
    def from_header(cls, value: str) -> Wait:
        kind, object_id, seconds, states = value.split(" ")
        return cls(kind, UUID(object_id), frozenset(states.split(",")), float(seconds))


def wait_if_requested(
    request: Request, response: Response, kind: str, object_id: UUID, states: Collection[str]
) -> Response:
    """Attach a wait to the response if the request has `wait`.

    Raises ApplianceError (INVALID) for values outside 0 to 60.
    """
    wanted = request.query_params.get("wait")
    if wanted is not None:
        try:
            seconds = float(wanted)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= MAX_WAIT_SECONDS:
            raise ApplianceError(
                Code.INVALID,
                f"wait must be a number of seconds between 0 and {MAX_WAIT_SECONDS:.0f}.",
            )
        wait = Wait(kind, object_id, frozenset(map(str, states)), seconds)
        vars(response)["wait"] = wait
    return response
