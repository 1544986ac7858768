"""Rotation of the CA and of the ticket key in phases.

idle -> distribute -> use -> idle, and from distribute or use -> roll_back -> idle. The row of the
kind is the only state: a controller that starts again continues from it. Phases end by themselves
when all nodes have followed and the time has passed, or when an operator forces them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from django.conf import settings
from django.utils import timezone

from appliance.activity.events import SYSTEM, emit
from appliance.allocations.tickets import LIFETIME_SECONDS, signing_key_in
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db.writer import write_transaction
from appliance.fleet.authorities import authorities, digest_of, publish_bundle
from appliance.fleet.certificates import create_authority, is_issued_by
from appliance.fleet.models import NodeCertificate
from appliance.inventory.generations import increment_generations
from appliance.inventory.models import Node
from appliance.keys.models import KeyKind, KeySet, Phase
from appliance.keys.slots import KeyState, new_slot, state_of
from appliance.runtime.each import run_each

TITLE = {KeyKind.CA: "CA", KeyKind.TICKET_KEY: "ticket key"}
FILE = {KeyKind.CA: "ca{}.key", KeyKind.TICKET_KEY: "ticket_key{}"}
EVENT = {
    Phase.DISTRIBUTE: ("rotation_started", "the next one is distributed to the nodes."),
    Phase.USE: ("rotation_switched", "the next one signs; the previous one is still accepted."),
    Phase.ROLL_BACK: ("rotation_aborted", "the previous one signs again."),
    Phase.IDLE: ("rotation_finished", "only the one that signs is accepted."),
}


@dataclass(frozen=True)
class Progress:
    """State of one kind, and what the phase waits for."""

    state: KeyState
    since: datetime | None
    ready_at: datetime | None
    """Time before which the phase does not end by itself; None while idle."""
    pending_nodes: tuple[str, ...]
    """Names of the nodes that have not followed."""


def progress(kind: KeyKind) -> Progress:
    """Return the progress of a kind. Reads the database."""
    row = KeySet.objects.filter(pk=kind).first()
    if row is None or row.phase == Phase.IDLE:
        return Progress(state_of(kind), row.phase_since if row else None, None, ())
    ready_at = row.phase_since + timedelta(seconds=wait_seconds(row))
    return Progress(state_of(kind), row.phase_since, ready_at, pending_nodes(row))


def wait_seconds(row: KeySet) -> float:
    """Return the shortest time of the phase.

    Tickets name the CAs that were trusted when they were issued, and they are signed by the key of
    that time. A phase that would make them useless lasts until they have expired.
    """
    if row.phase == Phase.DISTRIBUTE:
        return max(row.hold_seconds, LIFETIME_SECONDS if row.kind == KeyKind.CA else 0.0)
    return float(LIFETIME_SECONDS) if row.kind == KeyKind.TICKET_KEY else 0.0


def pending_nodes(row: KeySet) -> tuple[str, ...]:
    """Return the names of the nodes that would be lost or refuse tickets if the phase ended now."""
    if row.kind == KeyKind.CA:
        return names_of_nodes_without_certificate()
    applied = Node.objects.present().values_list("pk", "name", "applied_generation")
    wanted = row.generations
    return tuple(sorted(name for pk, name, a in applied if a < wanted.get(str(pk), 0)))


def names_of_nodes_without_certificate() -> tuple[str, ...]:
    """Return the nodes that have not used a certificate issued under the CAs in force."""
    followed = NodeCertificate.objects.in_force().filter(
        authorities_sha256=digest_of(authorities()), confirmed_at__isnull=False
    )
    nodes = Node.objects.present().exclude(pk__in=followed.values("node_id"))
    return tuple(nodes.order_by("name").values_list("name", flat=True))


@write_transaction
def start(*, kind: KeyKind, hold_seconds: float, actor: str) -> None:
    """Create the next key and distribute it. Raises ApplianceError CONFLICT during a rotation."""
    row = row_in(kind, Phase.IDLE)
    row.next, row.hold_seconds = new_slot(), hold_seconds
    if kind == KeyKind.CA:
        create_authority(settings.DATA_DIR, row.next)
    else:
        signing_key_in(settings.DATA_DIR / f"ticket_key{row.next}")
    enter(row, Phase.DISTRIBUTE, actor)


@write_transaction
def abort(*, kind: KeyKind, actor: str) -> None:
    """Let the current key sign again. Raises ApplianceError CONFLICT if there is no rotation."""
    enter(row_in(kind, Phase.DISTRIBUTE, Phase.USE), Phase.ROLL_BACK, actor)


@write_transaction
def advance(*, kind: KeyKind, force: bool, actor: str = SYSTEM) -> None:
    """End the phase.

    Raises ApplianceError CONFLICT if there is no rotation or, without `force`, if the phase waits
    for something. With `force`, nodes that have not followed are lost and must be enrolled again.
    """
    row = row_in(kind, Phase.DISTRIBUTE, Phase.USE, Phase.ROLL_BACK)
    lost = pending_nodes(row)
    if not force:
        refuse_unready(row, lost)
    if row.phase == Phase.DISTRIBUTE:
        enter(row, Phase.USE, actor, lost)
        return
    if kind == KeyKind.CA:
        refuse_old_server_certificate()
        revoke_others(digest_of(authorities()))
    if row.phase == Phase.USE:
        row.current = row.next
    row.next = ""
    enter(row, Phase.IDLE, actor, lost)


def row_in(kind: KeyKind, *phases: Phase) -> KeySet:
    """Return the row of a kind. Raises ApplianceError CONFLICT if it is in another phase."""
    row = KeySet.objects.filter(pk=kind).first() or KeySet(kind=kind)
    if row.phase not in phases:
        raise ApplianceError(
            Code.CONFLICT,
            f"The rotation of the {TITLE[kind]} is in the phase {row.phase}, not"
            f" {' or '.join(phases)}. See `busbar {kind} status`.",
        )
    return row


def refuse_unready(row: KeySet, pending: tuple[str, ...]) -> None:
    ready_at = row.phase_since + timedelta(seconds=wait_seconds(row))
    if pending:
        raise ApplianceError(
            Code.CONFLICT,
            f"{len(pending)} nodes have not followed: {', '.join(pending[:10])}."
            " Wait for them, or repeat with force; they must then be enrolled again.",
        )
    if ready_at > timezone.now():
        raise ApplianceError(
            Code.CONFLICT,
            f"The phase lasts until {ready_at:%Y-%m-%d %H:%M:%S} UTC. Wait, or repeat with force.",
        )


def refuse_old_server_certificate() -> None:
    """Raise ApplianceError CONFLICT until the server's certificate is of the CA that stays."""
    certificate = x509.load_pem_x509_certificate((settings.DATA_DIR / "server.pem").read_bytes())
    if not is_issued_by(authorities()[0], certificate):
        raise ApplianceError(
            Code.CONFLICT, "The server's certificate is being renewed; try again in 10 s."
        )


def revoke_others(authorities_sha256: str) -> None:
    """Revoke the certificates of nodes that were issued before this phase."""
    others = NodeCertificate.objects.filter(revoked_at=None, superseded_at=None)
    others.exclude(authorities_sha256=authorities_sha256).update(revoked_at=timezone.now())


def enter(row: KeySet, phase: Phase, actor: str, lost: tuple[str, ...] = ()) -> None:
    """Store the phase, send the keys to all nodes and record an event."""
    before = values_of(row)
    row.phase, row.phase_since = phase, timezone.now()
    row.save()
    record_changed(row, before)
    generations = increment_generations(Node.objects.present().values_list("pk", flat=True))
    row.generations = {str(node_id): generation for node_id, generation in generations.items()}
    row.save()
    kind = KeyKind(row.kind)
    name, text = EVENT[phase]
    missing = f" Nodes that have not followed: {', '.join(lost[:10])}." if lost else ""
    emit(
        f"{kind.name.lower()}.{name}",
        path="appliance",
        actor=actor,
        message=f"Rotation of the {TITLE[kind]}: {text}{missing}",
        nodes=list(lost),
    )


def follow_rotations() -> None:
    """End phases that are ready, and bring the files up to date. Called every second."""
    run_each("rotation", KeyKind, follow_rotation)
    update_files()


def follow_rotation(kind: KeyKind) -> None:
    row = KeySet.objects.exclude(phase=Phase.IDLE).filter(pk=kind).first()
    if row is not None and is_ready(row):
        advance_if_ready(kind)


def is_ready(row: KeySet) -> bool:
    ready_at = row.phase_since + timedelta(seconds=wait_seconds(row))
    return ready_at <= timezone.now() and not pending_nodes(row)


def advance_if_ready(kind: KeyKind) -> None:
    try:
        advance(kind=kind, force=False)
    except ApplianceError as error:
        if error.code != Code.CONFLICT:
            raise


@write_transaction
def update_files() -> None:
    """Publish the trusted CAs, and delete the keys that no row names."""
    publish_bundle()
    for kind in KeyKind:
        used = {settings.DATA_DIR / FILE[kind].format(slot) for slot in state_of(kind).accepted}
        for path in key_files(kind) - used:
            path.unlink()


def key_files(kind: KeyKind) -> set[Path]:
    folder = settings.DATA_DIR
    return {*folder.glob(FILE[kind].format("")), *folder.glob(FILE[kind].format("-????????"))}
