"""Counts of refusals as messages of the HTTP server to the controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields

from appliance.api.refusals import Counted, Refusal
from appliance.ipc import messages_pb2 as pb

FIELDS = tuple(field.name for field in fields(Refusal))


def to_messages(counted: Iterable[Counted]) -> pb.Refusals:
    return pb.Refusals(
        refusals=[
            pb.Refusal(minute=one.minute, count=one.count, **asdict(one.refusal)) for one in counted
        ]
    )


def from_messages(message: pb.Refusals) -> Iterator[Counted]:
    for one in message.refusals:
        refusal = Refusal(**{name: getattr(one, name) for name in FIELDS})
        yield Counted(refusal, one.minute, one.count)
