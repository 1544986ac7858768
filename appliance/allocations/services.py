"""Allocations: create, place, activate, release. Every transition is a guarded update and one event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.conf import settings
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from appliance.accounts.models import Project, User
from appliance.accounts.permissions import can
from appliance.activity.feed import hub
from appliance.activity.services import SYSTEM, emit, task_end, task_start
from appliance.allocations import holding, queue
from appliance.allocations.models import OCCUPYING, Allocation, AllocationState, Partition, Session, SessionState
from appliance.allocations.placement import GpuRoom, Placed, Request
from appliance.errors import ApplianceError, Code
from appliance.inventory.models import Gpu, NodeState
from appliance.inventory.services import raise_generation
from appliance.pools.models import Pool
from appliance.telemetry import latest
from appliance.writer import writes


def transition(allocation: Allocation, old: Iterable[str], new: AllocationState, *, message: str, actor: str = SYSTEM, **changes: object) -> bool:
    """True when this call made the change: one row, or it did not happen."""
    won = Allocation.objects.filter(pk=allocation.pk, state__in=list(old), version=allocation.version).update(
        state=new, version=allocation.version + 1, **changes
    )
    if won:
        emit(f"allocation.{new}", path=allocation.path, object_id=allocation.pk, project_id=allocation.project_id, actor=actor, message=message)
        allocation.refresh_from_db()
        for partition_id in allocation.partitions.values_list("pk", flat=True):
            hub.changed("partition", partition_id)
    return bool(won)


def rooms(pool: Pool) -> list[GpuRoom]:
    """The pool's GPUs with what is left of each. Partitions count until their node has reported them gone."""
    taken = {
        row["gpu_id"]: (row["percent"], row["memory"])
        for row in Partition.objects.filter(gpu__pool=pool, allocation__state__in=OCCUPYING)
        .values("gpu_id")
        .annotate(percent=Sum("compute_percent"), memory=Sum("memory_bytes"))
    }
    return [room_of(gpu, *taken.get(gpu.pk, (0, 0))) for gpu in Gpu.objects.filter(pool=pool).select_related("node")]


def room_of(gpu: Gpu, percent: int, memory: int) -> GpuRoom:
    why = ""
    if not gpu.present:
        why = f"GPU {gpu.index} of {gpu.node.name} is gone"
    elif gpu.node.state != NodeState.READY:
        why = f"node {gpu.node.name} is {gpu.node.state}"
    elif not latest.reachable(gpu.node_id):
        why = f"node {gpu.node.name} is unreachable"
    return GpuRoom(gpu.pk, gpu.node_id, gpu.memory_bytes, 100 - percent, gpu.memory_bytes - memory, not why, why)


@writes
def allocation_create(*, owner: User, project_name: str, pool_name: str, gpu_count: int, percent: int, name: str = "") -> Allocation:
    """Waits until it is placed; `waiting_reason` says why it does."""
    project = Project.objects.filter(name=project_name).first()
    pool = Pool.objects.filter(name=pool_name).first()
    if project is None or not can(owner, "allocations.create", project.pk):
        raise ApplianceError(Code.DENIED, f"You may not allocate in project {project_name}; ask an operator for the role `user` there.")
    if pool is None:
        raise ApplianceError(Code.NOT_FOUND, f"There is no pool {pool_name}; `busbar pool list` shows them.")
    allocation = Allocation.objects.create(owner=owner, project=project, pool=pool, gpu_count=gpu_count, percent=percent, name=name)
    emit(
        "allocation.waiting", path=allocation.path, object_id=allocation.pk, project_id=project.pk, actor=owner.username,
        message=f"{owner.username} asked for {gpu_count} × {percent} % from pool {pool.name}.",
    )  # fmt: skip
    task_start(
        kind="allocation.prepare", path=allocation.path, initiator=owner, project_id=project.pk,
        message=f"{name or allocation.pk}: {gpu_count} × {percent} % of pool {pool.name}",
    )  # fmt: skip
    holding.held(allocation.pk)
    queue_advance(pool_id=pool.pk)
    allocation.refresh_from_db()
    return allocation


@writes
def queue_advance(*, pool_id: UUID) -> None:
    """Places what fits; tells the others why they wait."""
    pool = Pool.objects.get(pk=pool_id)
    waiting = {a.pk: a for a in Allocation.objects.filter(pool=pool, state=AllocationState.WAITING)}
    if not waiting:
        return
    order = queue.in_order((a.pk, a.created_at, Request(a.gpu_count, a.percent)) for a in waiting.values())
    for allocation_id, outcome in queue.advance(rooms(pool), order):
        allocation = waiting[allocation_id]
        if isinstance(outcome, Placed):
            prepare(allocation, outcome)
        elif allocation.waiting_reason != outcome.reason:
            Allocation.objects.filter(pk=allocation_id).update(waiting_reason=outcome.reason)
            hub.changed("allocation", allocation_id)


def prepare(allocation: Allocation, outcome: Placed) -> None:
    if not transition(allocation, [AllocationState.WAITING], AllocationState.PREPARING, message="A place was found; its nodes are told.", waiting_reason=""):
        return
    generations = raise_generation(s.node_id for s in outcome.shares)
    created = Partition.objects.bulk_create(
        Partition(
            allocation=allocation,
            gpu_id=s.gpu_id,
            position=i,
            memory_bytes=s.memory_bytes,
            compute_percent=s.compute_percent,
            generation=generations[s.node_id],
        )
        for i, s in enumerate(outcome.shares)
    )
    for p in created:
        hub.changed("partition", p.pk)
    hub.changed("allocation", allocation.pk)


@writes
def generation_applied(*, node_id: UUID, generation: int) -> None:
    """A node has made this generation so: what waited for it becomes active or is released."""
    for allocation in Allocation.objects.filter(state=AllocationState.PREPARING, partitions__gpu__node_id=node_id).distinct():
        if all_applied(allocation, node_id, generation):
            transition(allocation, [AllocationState.PREPARING], AllocationState.ACTIVE, message="Ready for sessions.", active_at=timezone.now())
            task_end(path=allocation.path, kind="allocation.prepare")
    for allocation in Allocation.objects.filter(state=AllocationState.RELEASING, partitions__gpu__node_id=node_id).distinct():
        free(allocation.partitions.filter(gpu__node_id=node_id, generation__lte=generation))
        if not allocation.partitions.exists():
            finish_release(allocation)


def all_applied(allocation: Allocation, node_id: UUID, generation: int) -> bool:
    for p in allocation.partitions.select_related("gpu__node"):
        applied = generation if p.gpu.node_id == node_id else p.gpu.node.applied_generation
        if applied < p.generation:
            return False
    return True


def free(partitions: QuerySet[Partition]) -> int:
    """Deletes the rows and tells the browsers."""
    ids = list(partitions.values_list("pk", flat=True))
    Partition.objects.filter(pk__in=ids).delete()
    for partition_id in ids:
        hub.gone("partition", partition_id, "inventory.view")
    return len(ids)


def finish_release(allocation: Allocation) -> None:
    if transition(allocation, [AllocationState.RELEASING], AllocationState.RELEASED, message=f"Released: {allocation.end_reason}", ended_at=timezone.now()):
        holding.forget(allocation.pk)
        queue_advance(pool_id=allocation.pool_id)


@writes
def evict(*, allocation_id: UUID, reason: str, actor: str = SYSTEM) -> Allocation:
    """The one way of taking back. Its partitions stay occupied until their nodes report the fence applied."""
    allocation = Allocation.objects.get(pk=allocation_id)
    if allocation.state in (AllocationState.RELEASING, AllocationState.RELEASED, AllocationState.FAILED):
        return allocation
    if allocation.state == AllocationState.WAITING:
        if transition(
            allocation,
            [AllocationState.WAITING],
            AllocationState.RELEASED,
            message=f"Left the queue: {reason}",
            actor=actor,
            end_reason=reason,
            ended_at=timezone.now(),
        ):
            task_end(path=allocation.path, kind="allocation.prepare", error=reason)
        return allocation
    old = [AllocationState.PREPARING, AllocationState.ACTIVE, AllocationState.SUSPENDED]
    if transition(allocation, old, AllocationState.RELEASING, message=reason, actor=actor, end_reason=reason, fence_counter=F("fence_counter") + 1):
        task_end(path=allocation.path, kind="allocation.prepare", error=reason)
        generations = raise_generation(allocation.partitions.values_list("gpu__node_id", flat=True))
        for p in allocation.partitions.select_related("gpu"):
            Partition.objects.filter(pk=p.pk).update(generation=generations[p.gpu.node_id])
    return allocation


@writes
def force_release(*, allocation_id: UUID, actor: str) -> Allocation:
    """Frees the partitions of a node that does not report. Its sessions may still run there: an administrator's decision, kept in the events."""
    allocation = evict(allocation_id=allocation_id, reason=f"force-released by {actor}", actor=actor)
    freed = free(allocation.partitions.all())
    emit(
        "allocation.force_released", path=allocation.path, object_id=allocation.pk, project_id=allocation.project_id, actor=actor,
        message=f"{actor} freed {freed} partitions without their nodes' word.",
    )  # fmt: skip
    if allocation.state == AllocationState.RELEASING:
        finish_release(allocation)
    return allocation


@writes
def release_unheld() -> None:
    """Ends what neither a live session nor a heartbeat has held for too long."""
    patience = settings.ENVIRONMENT.hold_seconds
    states = [AllocationState.WAITING, AllocationState.PREPARING, AllocationState.ACTIVE]
    for allocation in Allocation.objects.filter(state__in=states):
        if allocation.sessions.exclude(state=SessionState.CLOSED).exists():
            holding.held(allocation.pk)
        elif holding.seconds_since_held(allocation.pk) > patience:
            evict(allocation_id=allocation.pk, reason=f"nobody held it for {patience:.0f} s")


@dataclass(frozen=True)
class ReportedSession:
    session_id: UUID
    allocation_id: UUID
    state: str
    pid: int
    client_pid: int
    client_address: str
    program: str
    isolation: dict[str, object]
    memory_bytes: int
    launches: int
    bytes_in: int
    bytes_out: int
    end_reason: str
    opened_seconds: int
    refused_calls: tuple[str, ...] = ()


@writes
def sessions_report(*, node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """The node's sessions as its launcher sees them. Those it no longer lists are closed."""
    seen = set()
    for r in reported:
        seen.add(r.session_id)
        record_session(node_id, r)
    for gone in Session.objects.filter(node_id=node_id).exclude(state=SessionState.CLOSED).exclude(pk__in=seen):
        close_session(gone, "the node no longer lists it")


def record_session(node_id: UUID, r: ReportedSession) -> None:
    known = Session.objects.filter(pk=r.session_id, node_id=node_id).first()
    if known is None:
        allocation = Allocation.objects.filter(pk=r.allocation_id, partitions__gpu__node_id=node_id).first()
        if allocation is None:
            return  # not of this node, or of an allocation that is gone: an agent speaks for its own rows only
        known = Session.objects.create(
            id=r.session_id, allocation=allocation, node_id=node_id, state=SessionState.OPENING, pid=r.pid, client_pid=r.client_pid,
            client_address=r.client_address[:64], program=r.program[:64], opened_at=datetime.fromtimestamp(r.opened_seconds, UTC),
        )  # fmt: skip
        emit(
            "session.opened", path=f"{allocation.path}/sessions/{known.pk}", object_id=known.pk, project_id=allocation.project_id,
            message=f"{r.program} opened a session from {r.client_address}.",
        )  # fmt: skip
    if new := [name for name in r.refused_calls if name not in known.refused_calls]:
        note_refused(known, new)
    if r.state == SessionState.CLOSED:
        close_session(known, r.end_reason)
        return
    news = {
        "state": r.state,
        "isolation": r.isolation,
        "memory_bytes": r.memory_bytes,
        "launches": r.launches,
        "bytes_in": r.bytes_in,
        "bytes_out": r.bytes_out,
    }
    if all(getattr(known, name) == value for name, value in news.items()):
        return
    if Session.objects.filter(pk=known.pk).exclude(state=SessionState.CLOSED).update(**news):
        hub.changed("session", known.pk)


def note_refused(session: Session, names: list[str]) -> None:
    """The program called functions that are not there: what people look for when it then fails."""
    Session.objects.filter(pk=session.pk).update(refused_calls=[*session.refused_calls, *names])
    allocation = session.allocation
    emit(
        "session.refused_calls", path=f"{allocation.path}/sessions/{session.pk}", object_id=session.pk, project_id=allocation.project_id,
        message=f"{session.program} called what is not supported yet: {', '.join(names)}.",
    )  # fmt: skip
    hub.changed("session", session.pk)


def close_session(session: Session, reason: str) -> None:
    if (
        Session.objects.filter(pk=session.pk)
        .exclude(state=SessionState.CLOSED)
        .update(state=SessionState.CLOSED, closed_at=timezone.now(), end_reason=reason[:200], memory_bytes=0)
    ):
        allocation = session.allocation
        holding.held(allocation.pk)
        emit(
            "session.closed", path=f"{allocation.path}/sessions/{session.pk}", object_id=session.pk, project_id=allocation.project_id,
            message=f"The session of {session.program} ended: {reason}.",
        )  # fmt: skip
