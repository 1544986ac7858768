"""Changes of the change log as messages between processes."""

from __future__ import annotations

from uuid import UUID

from appliance.db.change_log import Change, Removal, Topic
from appliance.ipc import messages_pb2 as pb


def to_message(sequence: int, change: Change) -> pb.ControllerMessage:
    removal = None
    if change.removal is not None:
        audience = change.removal.audience
        projects = audience if isinstance(audience, frozenset) else {audience} - {None}
        removal = pb.Removal(
            privilege=change.removal.privilege,
            any_project=audience is None,
            projects=[p.bytes for p in projects if p is not None],
        )
    return pb.ControllerMessage(
        change=pb.Change(
            sequence=sequence,
            topic=str(change.topic),
            object_id=change.object_id.bytes,
            removal=removal,
        )
    )


def from_message(message: pb.Change) -> Change:
    removal = None
    if message.HasField("removal"):
        projects = frozenset(UUID(bytes=p) for p in message.removal.projects)
        removal = Removal(
            message.removal.privilege, None if message.removal.any_project else projects
        )
    return Change(Topic(message.topic), UUID(bytes=message.object_id), removal)
