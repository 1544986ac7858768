"""Stateful test of the allocator.

Random sequences of requests, evictions, reports and node failures; after each step no GPU is
overcommitted, neither in the database nor on the nodes.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from appliance.accounts.models import Project, Role, RoleBinding, User
from appliance.activity.models import Task
from appliance.allocations import eviction, lifecycle, models, scheduler, services, suspending
from appliance.allocations.active_allocations import load_active_allocations
from appliance.allocations.grants import load_partitions
from appliance.allocations.index import Index, index
from appliance.allocations.models import (
    HOLDING,
    OCCUPYING,
    RUNNING,
    Allocation,
    AllocationState,
    Partition,
)
from appliance.allocations.placement import GpuCapacity
from appliance.allocations.resize_requests import resize
from appliance.allocations.snapshot_gpus import load_pool_gpus
from appliance.allocations.snapshot_loader import load_rules
from appliance.allocations.suspension_requests import resume, suspend
from appliance.api.errors import ApplianceError
from appliance.fleet.desired_state import build_desired_state
from appliance.fleet.message_check import SUSPENSION_STATES
from appliance.fleet.reports import record_applied
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import ReportedGpu, ReportedNode, create_node, record_node_report
from appliance.inventory.services import set_node_schedulable
from appliance.pools.isolation import IsolationLevel, satisfies
from appliance.pools.models import Pool, Quota
from appliance.pools.services import ensure_default_pool, update_pool
from appliance.telemetry import reachability
from nodes.protocol import fleet_pb2

GIB = 1 << 30
SHORT_STEPS = 500
LONG_STEPS = 20_000
STEPS_PER_EXAMPLE = 50
NODE: dict[str, Any] = {
    "software": True,
    "boot_id": "boot",
    "endpoints": (),
    "suspends_sessions": True,
    "resizes_allocations": True,
}
REPORTED = partial(ReportedNode, "1", "1", "test", **NODE)
USUALLY_TRUE = st.sampled_from([True, True, True, False])
USUALLY_NO_MODE = st.sampled_from([None, None, None, "shared", "capped", "exclusive"])
USUALLY_NONE = st.sampled_from([0, 0, 0, 1])


Grants = dict[tuple[uuid.UUID, uuid.UUID], tuple[int, int]]
"""Percent and bytes of each allocation on each GPU."""


def grants_of(node_id: uuid.UUID) -> Grants:
    grants = build_desired_state(node_id).grants
    return {
        (uuid.UUID(bytes=g.allocation_id), uuid.UUID(bytes=p.gpu_uuid)): (
            p.compute_percent,
            p.memory_bytes,
        )
        for g in grants
        for p in g.partitions
    }


class Allocator(RuleBasedStateMachine):
    """Each example runs in a transaction that is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        ensure_default_pool()
        self.users = []
        for name, quota in (("red", 100), ("blue", None)):
            project, user = Project.objects.create(name=name), User.objects.create(username=name)
            RoleBinding.objects.create(user=user, project=project, role=Role.USER)
            Quota.objects.create(
                subject_kind="project",
                subject_id=project.pk,
                quota_percent=quota,
                limit_percent=None if quota else 250,
            )
            self.users.append(user)
        self.desired: dict[uuid.UUID, dict[int, Grants]] = {}
        """Desired states of each node by generation."""
        self.applied: dict[uuid.UUID, int] = {}
        self.held: dict[tuple[uuid.UUID, uuid.UUID], int] = {}
        """Bytes that the sessions of each allocation hold on each GPU."""
        self.seen: dict[uuid.UUID, Any] = {}
        """Inputs of the last check of each node, to skip equal ones."""
        index.reset()
        self.steps = 0
        self.forced: set[uuid.UUID] = set()
        """Force-released allocations."""
        self.placed: set[uuid.UUID] = set()
        """Allocations whose placement has been checked."""

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    def nodes(self) -> list[Node]:
        return list(Node.objects.order_by("pk"))

    @initialize(gpus=st.integers(1, 3))
    def enrol_first_node(self, gpus: int) -> None:
        self.enrol_node(gpus)

    @precondition(lambda self: len(self.nodes()) < 3)
    @rule(gpus=st.integers(1, 3))
    def enrol_node(self, gpus: int) -> None:
        node = create_node(name="node")
        reported = tuple(
            ReportedGpu(uuid.uuid4(), i, "Test GPU", 8 * GIB, "12.0") for i in range(gpus)
        )
        record_node_report(node_id=node.pk, report=REPORTED(gpus=reported))
        reachability.record_heartbeat(node.pk)

    @rule(
        user_index=st.integers(0, 1),
        gpu_count=st.integers(1, 3),
        percent=st.sampled_from([10, 40, 60, 100]),
        priority=st.sampled_from([10, 50]),
        preemptible=st.booleans(),
        same_node=st.booleans(),
    )
    def request_allocation(
        self,
        user_index: int,
        gpu_count: int,
        percent: int,
        priority: int,
        preemptible: bool,
        same_node: bool,
    ) -> None:
        user = self.users[user_index]
        services.create_allocation(
            owner=user,
            project_name=user.username,
            pool_name="default",
            gpu_count=gpu_count,
            percent=percent,
            same_node=same_node,
            priority=priority,
            preemptible=preemptible,
            allow_pending=True,
        )

    @precondition(lambda self: Allocation.objects.exclude(state="released").exists())
    @rule(data=st.data(), grace=st.sampled_from([0.0, 0.0, 30.0]))
    def evict_allocation(self, data: st.DataObject, grace: float) -> None:
        held = Allocation.objects.exclude(state="released").order_by("pk")
        chosen = data.draw(st.sampled_from(list(held))).pk
        eviction.evict(allocation_id=chosen, reason="test", grace_seconds=grace)

    @rule()
    def expire_notices(self) -> None:
        Allocation.objects.exclude(evict_at=None).update(evict_at="2020-01-01T00:00:00Z")
        eviction.evict_expired()

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), lag=st.sampled_from([0, 0, 0, 1, 2]))
    def report_applied_generation(self, data: st.DataObject, lag: int) -> None:
        """A node applies the newest generation, or lags behind by one or two."""
        node = data.draw(st.sampled_from(self.nodes()))
        known = [g for g in sorted(self.desired[node.pk]) if g >= self.applied.get(node.pk, 0)]
        self.applied[node.pk] = known[max(0, len(known) - 1 - lag)]
        self.report(node.pk, data)

    def report(self, node_id: uuid.UUID, data: st.DataObject) -> None:
        """Let sessions use what their node grants, or free a part, and report as an agent does."""
        granted = self.desired[node_id].get(self.applied[node_id], {})
        own = set(Gpu.objects.filter(node_id=node_id).values_list("uuid", flat=True))
        for key in [k for k in self.held if k[1] in own and k not in granted]:
            del self.held[key]  # its sessions have ended
        for key, (_, size) in granted.items():
            if self.held.get(key, 0) <= size:
                self.held[key] = size
            elif data.draw(st.booleans()):
                self.held[key] -= GIB // 4
        over: dict[uuid.UUID, list[int]] = {}
        for allocation_id in {a for a, _ in granted}:
            mine = [(k, s) for k, (_, s) in granted.items() if k[0] == allocation_id]
            if any(self.held[k] > size for k, size in mine):
                over[allocation_id] = [self.held[k] for k, _ in mine]
        record_applied(node_id, self.applied[node_id], over=over)

    @precondition(lambda self: Allocation.objects.filter(state="active").exists())
    @rule(data=st.data(), percent=st.sampled_from([10, 20, 40, 60, 90, 100]), mode=USUALLY_NO_MODE)
    def resize_allocation(self, data: st.DataObject, percent: int, mode: str | None) -> None:
        active = Allocation.objects.filter(state="active", evict_at=None).order_by("pk")
        if not active:
            return
        chosen = data.draw(st.sampled_from(list(active)))
        with contextlib.suppress(ApplianceError):  # more than the limit, or of whole GPUs
            resize(allocation_id=chosen.pk, percent=percent, compute_mode=mode, user=chosen.owner)

    @precondition(lambda self: Allocation.objects.filter(state__in=RUNNING).exists())
    @rule(data=st.data(), action=st.sampled_from([suspend, suspend, resume]))
    def suspend_or_resume(self, data: st.DataObject, action: Callable[..., None]) -> None:
        running = Allocation.objects.filter(state__in=RUNNING).order_by("pk")
        chosen = data.draw(st.sampled_from(list(running)))
        with contextlib.suppress(ApplianceError):  # in another state
            action(allocation_id=chosen.pk, user=chosen.owner)

    @precondition(lambda self: Allocation.objects.exclude(suspension="").exists())
    @rule(data=st.data(), state=st.sampled_from(sorted(SUSPENSION_STATES)), lag=USUALLY_NONE)
    def report_suspension(self, data: st.DataObject, state: str, lag: int) -> None:
        """Any node reports any state, also about an older request."""
        rows = Allocation.objects.exclude(suspension="").order_by("pk")
        chosen = data.draw(st.sampled_from(list(rows)))
        revision = max(0, chosen.suspension_revision - lag)
        for node in data.draw(st.lists(st.sampled_from(self.nodes()), min_size=1, unique=True)):
            reported = fleet_pb2.Suspension(revision=revision, state=state, released_bytes=GIB)
            reported.reason = "busy" if state == "failed" else ""
            suspending.record_reports(node.pk, {chosen.pk: reported})

    @precondition(lambda self: self.applied)
    @rule(data=st.data(), back=st.integers(0, 3))
    def repeat_old_report(self, data: st.DataObject, back: int) -> None:
        node_id, generation = data.draw(st.sampled_from(sorted(self.applied.items())))
        if back:
            record_applied(node_id, max(0, generation - back), over={})

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), schedulable=USUALLY_TRUE)
    def cordon_or_uncordon_node(self, data: st.DataObject, schedulable: bool) -> None:
        node = data.draw(st.sampled_from(self.nodes()))
        if (node.state == "ready") != schedulable:
            set_node_schedulable(node_id=node.pk, schedulable=schedulable, actor="olga")

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), reachable=USUALLY_TRUE)
    def change_reachability(self, data: st.DataObject, reachable: bool) -> None:
        node = data.draw(st.sampled_from(self.nodes()))
        (reachability.record_heartbeat if reachable else reachability.forget_node)(node.pk)

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), level=st.sampled_from(IsolationLevel))
    def report_isolation(self, data: st.DataObject, level: IsolationLevel) -> None:
        node = data.draw(st.sampled_from(self.nodes()))
        reported = tuple(
            ReportedGpu(g.uuid, g.index, g.model, g.memory_bytes, g.compute_capability)
            for g in node.gpus.all()
        )
        record_node_report(
            node_id=node.pk,
            report=REPORTED(gpus=reported, isolation=level),
        )

    @rule(level=st.sampled_from(["any", "any", *IsolationLevel.values]))
    def require_isolation(self, level: str) -> None:
        values = {"required_isolation": level}
        update_pool(pool_id=Pool.objects.get().pk, values=values, actor="olga")

    @rule()
    def run_scheduler(self) -> None:
        scheduler.run_tick()

    @precondition(lambda self: Allocation.objects.filter(state="releasing").exists())
    @rule(data=st.data())
    def force_release(self, data: st.DataObject) -> None:
        releasing = Allocation.objects.filter(state="releasing").order_by("pk")
        chosen = data.draw(st.sampled_from(list(releasing))).pk
        services.force_release(allocation_id=chosen, actor="admin")
        self.forced.add(chosen)

    @invariant()
    def index_equals_database(self) -> None:
        """Checked every few steps only, because the check refreshes the index."""
        self.steps += 1
        if self.steps % 5:
            return

        def ordered(
            pools: Mapping[uuid.UUID, Sequence[GpuCapacity]],
        ) -> dict[uuid.UUID, list[GpuCapacity]]:
            return {
                pool: sorted(gpus, key=lambda g: g.gpu_id) for pool, gpus in pools.items() if gpus
            }

        pools, active, rules = index.refresh()
        expected = load_active_allocations()
        assert (
            ordered(pools) == ordered(load_pool_gpus())
            and active == expected
            and rules == load_rules()
        ), "the index differs from the database"
        assert (
            +active.use == +expected.use
            and +active.non_preemptible_use == +expected.non_preemptible_use
        ), "the totals of the index are wrong"

    @invariant()
    def allocations_are_placed_on_nodes_with_the_required_isolation(self) -> None:
        """Checked once for each allocation: levels and requirements may change later."""
        required = Pool.objects.get().required_isolation
        for p in Partition.objects.exclude(allocation__in=self.placed).select_related("gpu__node"):
            assert satisfies(p.gpu.node.isolation, required)
        self.placed |= set(Partition.objects.values_list("allocation_id", flat=True))

    @invariant()
    def no_gpu_is_overcommitted(self) -> None:
        sums = {
            r["gpu_id"]: (r["p"], r["m"])
            for r in Partition.objects.values("gpu_id").annotate(
                p=Sum("compute_percent"), m=Sum("memory_bytes") + Sum("over_bytes")
            )
        }
        for gpu in Gpu.objects.all():
            percent, memory = sums.get(gpu.pk, (0, 0))
            assert percent <= 100 and memory <= gpu.memory_bytes, "overcommitted"
            assert (gpu.taken_percent, gpu.taken_memory_bytes) == (percent, memory), (
                "the taken capacity differs from the sum of the partitions"
            )

    @invariant()
    def partitions_match_the_state(self) -> None:
        for a in Allocation.objects.prefetch_related("partitions"):
            count = len(a.partitions.all())
            if a.state in HOLDING:
                assert count == a.gpu_count and a.placed_pool_id is not None
            elif a.state not in OCCUPYING:
                assert count == 0, f"{a.state} with partitions"
            waits = a.state == AllocationState.QUEUED or a.resize_requested_at is not None
            assert waits or not a.waiting_reason
            assert a.resize_requested_at is None or a.state in RUNNING

    @invariant()
    def suspensions_match_the_state(self) -> None:
        over = Partition.objects.filter(over_bytes__gt=0)  # programs could never go on
        assert not over.filter(allocation__suspension__in=models.IN_PROGRESS).exists()
        running: dict[str, set[str]] = {"allocation.suspend": set(), "allocation.resume": set()}
        for kind, path in Task.objects.filter(kind__in=running, state="running").values_list(
            "kind", "path"
        ):
            running[kind].add(path)
        for a in Allocation.objects.all():
            held = a.suspension in models.HELD
            assert held or a.suspension == "resuming" or a.state != AllocationState.SUSPENDED
            assert a.state in RUNNING or not a.suspension, f"{a.state} and {a.suspension}"
            assert not held or a.state == AllocationState.SUSPENDED
            is_suspending = a.path in running["allocation.suspend"]
            assert is_suspending == (a.suspension == "suspending"), "the task differs"
            assert a.suspension == "resuming" or a.path not in running["allocation.resume"]

    @invariant()
    def desired_states_fit_beside_applied_ones(self) -> None:
        """A node runs the grants that it applied last until it reports a newer generation."""
        rows = list(
            Partition.objects.values_list(
                "gpu__node_id",
                "allocation_id",
                "gpu__uuid",
                "compute_percent",
                "memory_bytes",
                "allocation__state",
            )
        )
        for node in self.nodes():
            here = [row[1:] for row in rows if row[0] == node.pk]
            if self.seen.get(node.pk) == (node.generation, here, self.applied.get(node.pk)):
                continue
            self.seen[node.pk] = (node.generation, here, self.applied.get(node.pk))
            desired = grants_of(node.pk)
            self.desired.setdefault(node.pk, {})[node.generation] = desired
            assert desired == {(a, g): (p, m) for a, g, p, m, state in here if state in HOLDING}
            running = self.desired[node.pk].get(self.applied.get(node.pk, 0), {})
            # The node applies the smaller share of a resized allocation together with the others.
            ended = {k: v for k, v in running.items() if k not in desired}
            together = {(a, g): (p, m) for a, g, p, m, _ in here} | {
                key: size for key, size in ended.items() if key[0] not in self.forced
            }
            for gpu in {g for _, g in together}:
                assert sum(size[0] for (_, g), size in together.items() if g == gpu) <= 100, (
                    "granted while another allocation still runs there"
                )

    @invariant()
    def memory_that_is_held_is_granted_to_nobody_else(self) -> None:
        """Also memory that an allocation holds beyond its size."""
        occupied = {
            (a, g): m + over
            for a, g, m, over in Partition.objects.values_list(
                "allocation_id", "gpu__uuid", "memory_bytes", "over_bytes"
            )
        }
        for key, held in self.held.items():
            assert key[0] in self.forced or held <= occupied.get(key, 0), "given away while held"

    @invariant()
    def limits_hold(self) -> None:
        blue = Project.objects.get(name="blue")
        used = (
            Partition.objects.filter(allocation__project=blue).aggregate(p=Sum("compute_percent"))[
                "p"
            ]
            or 0
        )
        assert used <= 250, "over the limit"


def run(examples: int, *phases: Phase) -> None:
    run_state_machine_as_test(
        Allocator,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS_PER_EXAMPLE,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            phases=phases or tuple(Phase),
        ),
    )


@pytest.mark.django_db
def test_short_random_walk_never_overcommits_a_gpu() -> None:
    run(SHORT_STEPS // STEPS_PER_EXAMPLE)


@pytest.mark.long
@pytest.mark.django_db
def test_long_random_walk_never_overcommits_a_gpu() -> None:
    run(LONG_STEPS // STEPS_PER_EXAMPLE)


def plant_missing_index_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "invalidate", lambda self, change: None)


def plant_missing_capacity_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "take_capacity", lambda *_: None)


def plant_early_release(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_release = lifecycle.begin_release

    def release_at_once(allocation: Allocation, **more: Any) -> None:
        begin_release(allocation, **more)
        if allocation.state == AllocationState.RELEASING:
            lifecycle.free_partitions(load_partitions([allocation.pk]).get(allocation.pk, []))

    monkeypatch.setattr(lifecycle, "begin_release", release_at_once)


def plant_memory_that_is_free_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "held_bytes", lambda partitions, *_, **__: [0] * len(partitions))


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (plant_missing_capacity_update, "overcommitted|differs from the sum"),
        (plant_early_release, "still runs there|given away while held"),
        (plant_memory_that_is_free_at_once, "given away while held"),
        (plant_missing_index_update, "differs from the database"),
    ],
)
def test_planted_fault_is_detected(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], message: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=message):
        run(3000, Phase.generate)  # usually fails within 100 examples
