"""The allocator against a model: any order of requests, releases, reports, cordons and deaths; after each, nobody has what another has."""

from __future__ import annotations

import uuid
from collections.abc import Callable
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
from appliance.allocations import book, lifecycle, services
from appliance.allocations.index import index
from appliance.allocations.models import HOLDING, OCCUPYING, Allocation, AllocationState, Partition
from appliance.allocations.placement import GpuRoom
from appliance.fleet.desired_state import desired_state
from appliance.fleet.reports import record_applied
from appliance.inventory.models import Gpu, Node
from appliance.inventory.services import (
    ReportedGpu,
    ReportedNode,
    node_create,
    node_report,
    node_set_schedulable,
)
from appliance.pools.models import Quota
from appliance.pools.services import ensure_default_pool
from appliance.telemetry import latest

GIB = 1 << 30
STEPS = 20_000
STEPS_AN_EXAMPLE = 50
MOSTLY = st.sampled_from([True, True, True, False])


Grants = dict[tuple[uuid.UUID, uuid.UUID], int]
"""Allocation and GPU to percent."""


def grants_of(node_id: uuid.UUID) -> Grants:
    grants = desired_state(node_id).grants
    return {
        (uuid.UUID(bytes=g.allocation_id), uuid.UUID(bytes=p.gpu_uuid)): p.compute_percent
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
        self.told: dict[uuid.UUID, dict[int, Grants]] = {}
        """Each node's desired states by generation, as it could have received them."""
        self.applied: dict[uuid.UUID, int] = {}
        self.seen: dict[uuid.UUID, Any] = {}
        """What was looked at last, so that it is not looked at again."""
        index.forget()
        self.steps = 0
        self.forced: set[uuid.UUID] = set()
        """What an administrator freed without the nodes' word."""

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    def nodes(self) -> list[Node]:
        return list(Node.objects.order_by("pk"))

    @initialize(gpus=st.integers(1, 3))
    def there_is_a_node(self, gpus: int) -> None:
        self.a_node_enrols(gpus)

    @precondition(lambda self: len(self.nodes()) < 3)
    @rule(gpus=st.integers(1, 3))
    def a_node_enrols(self, gpus: int) -> None:
        node = node_create(name="node")
        reported = tuple(
            ReportedGpu(uuid.uuid4(), i, "Test GPU", 8 * GIB, "12.0") for i in range(gpus)
        )
        node_report(
            node_id=node.pk, report=ReportedNode("1", "1", "test", True, "boot", (), reported)
        )
        latest.heard_from(node.pk)

    @rule(
        who=st.integers(0, 1), gpu_count=st.integers(1, 3), percent=st.sampled_from([10, 40, 60, 100]), priority=st.sampled_from([10, 50]),
        preemptible=st.booleans(), same_node=st.booleans(),
    )  # fmt: skip
    def somebody_asks(
        self,
        who: int,
        gpu_count: int,
        percent: int,
        priority: int,
        preemptible: bool,
        same_node: bool,
    ) -> None:
        user = self.users[who]
        wanted = services.Wanted(
            "default",
            gpu_count,
            percent,
            same_node=same_node,
            priority=priority,
            preemptible=preemptible,
        )
        services.allocation_create(owner=user, project_name=user.username, wanted=wanted)

    @precondition(lambda self: Allocation.objects.exclude(state="released").exists())
    @rule(data=st.data(), grace=st.sampled_from([0.0, 0.0, 30.0]))
    def one_is_taken_back(self, data: st.DataObject, grace: float) -> None:
        chosen = data.draw(
            st.sampled_from(
                list(
                    Allocation.objects.exclude(state="released")
                    .order_by("pk")
                    .values_list("pk", flat=True)
                )
            )
        )
        services.evict(allocation_id=chosen, reason="tried", grace_seconds=grace)

    @rule()
    def notices_run_out(self) -> None:
        Allocation.objects.exclude(evict_at=None).update(evict_at="2020-01-01T00:00:00Z")
        services.end_what_is_due()

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), lag=st.sampled_from([0, 0, 0, 1, 2]))
    def a_node_reports(self, data: st.DataObject, lag: int) -> None:
        """What it applied: the newest or one of the last before."""
        node = data.draw(st.sampled_from(self.nodes()))
        known = [g for g in sorted(self.told[node.pk]) if g >= self.applied.get(node.pk, 0)]
        self.applied[node.pk] = known[max(0, len(known) - 1 - lag)]
        record_applied(node.pk, self.applied[node.pk])

    @precondition(lambda self: self.applied)
    @rule(data=st.data(), back=st.integers(0, 3))
    def an_old_report_comes_again(self, data: st.DataObject, back: int) -> None:
        node_id, generation = data.draw(st.sampled_from(sorted(self.applied.items())))
        record_applied(node_id, max(0, generation - back))

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), schedulable=MOSTLY)
    def a_node_is_cordoned_or_not(self, data: st.DataObject, schedulable: bool) -> None:
        node = data.draw(st.sampled_from(self.nodes()))
        if (node.state == "ready") != schedulable:
            node_set_schedulable(node_id=node.pk, schedulable=schedulable, actor="olga")

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), alive=MOSTLY)
    def a_node_falls_silent_or_speaks(self, data: st.DataObject, alive: bool) -> None:
        node = data.draw(st.sampled_from(self.nodes()))
        (latest.heard_from if alive else latest.forget)(node.pk)

    @rule()
    def the_scheduler_ticks(self) -> None:
        services.queue_advance()

    @precondition(lambda self: Allocation.objects.filter(state="releasing").exists())
    @rule(data=st.data())
    def an_administrator_forces(self, data: st.DataObject) -> None:
        chosen = data.draw(
            st.sampled_from(
                list(
                    Allocation.objects.filter(state="releasing")
                    .order_by("pk")
                    .values_list("pk", flat=True)
                )
            )
        )
        services.force_release(allocation_id=chosen, actor="admin")
        self.forced.add(chosen)

    @invariant()
    def what_is_kept_is_what_the_rows_say(self) -> None:
        """Every few steps: looking also refreshes what is kept."""
        self.steps += 1
        if self.steps % 5:
            return

        def ordered(rooms: dict[uuid.UUID, list[GpuRoom]]) -> dict[uuid.UUID, list[GpuRoom]]:
            return {
                pool: sorted(here, key=lambda g: g.gpu_id) for pool, here in rooms.items() if here
            }

        rooms, holders, rules = index.refreshed()
        assert (
            ordered(rooms) == ordered(book.rooms())
            and holders == book.holders()
            and rules == book.rules()
        ), "kept otherwise than the rows say"
        assert (
            +holders.use == +book.holders().use and +holders.fixed_use == +book.holders().fixed_use
        ), "counted otherwise than they are"

    @invariant()
    def no_gpu_is_given_twice(self) -> None:
        sums = {
            r["gpu_id"]: (r["p"], r["m"])
            for r in Partition.objects.values("gpu_id").annotate(
                p=Sum("compute_percent"), m=Sum("memory_bytes")
            )
        }
        for gpu in Gpu.objects.all():
            percent, memory = sums.get(gpu.pk, (0, 0))
            assert percent <= 100 and memory <= gpu.memory_bytes, "given twice"
            assert (gpu.taken_percent, gpu.taken_memory_bytes) == (percent, memory), (
                "the counted room is not the partitions' sum"
            )

    @invariant()
    def rows_fit_states(self) -> None:
        for a in Allocation.objects.prefetch_related("partitions"):
            count = len(a.partitions.all())
            if a.state in HOLDING:
                assert count == a.gpu_count and a.placed_pool_id is not None
            elif a.state not in OCCUPYING:
                assert count == 0, f"{a.state} with partitions"
            assert a.state == AllocationState.WAITING or not a.waiting_reason

    @invariant()
    def nodes_are_told_what_is_granted_and_what_still_runs_there_fits_beside_it(self) -> None:
        """A node runs what it last applied until it says otherwise, whatever the appliance has decided since."""
        rows = list(
            Partition.objects.values_list(
                "gpu__node_id", "allocation_id", "gpu__uuid", "compute_percent", "allocation__state"
            )
        )
        for node in self.nodes():
            here = [row[1:] for row in rows if row[0] == node.pk]
            if self.seen.get(node.pk) == (node.generation, here, self.applied.get(node.pk)):
                continue
            self.seen[node.pk] = (node.generation, here, self.applied.get(node.pk))
            told = self.told.setdefault(node.pk, {})[node.generation] = grants_of(node.pk)
            assert told == {(a, g): percent for a, g, percent, state in here if state in HOLDING}
            running = self.told[node.pk].get(self.applied.get(node.pk, 0), {})
            together = {(a, g): percent for a, g, percent, _ in here} | {
                key: percent for key, percent in running.items() if key[0] not in self.forced
            }
            for gpu in {g for _, g in together}:
                assert sum(percent for (_, g), percent in together.items() if g == gpu) <= 100, (
                    "granted while another still runs there"
                )

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
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Allocator,
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS_AN_EXAMPLE, deadline=None, suppress_health_check=list(HealthCheck), database=None,
            phases=phases or tuple(Phase),
        ),
    )  # fmt: skip


@pytest.mark.django_db
def test_nobody_ever_has_what_another_has() -> None:
    run(STEPS // STEPS_AN_EXAMPLE)


def an_index_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "touch_gpus", lambda _: None)


def not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "take", lambda *_: None)


def freed_before_the_nodes_word(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lifecycle.begin_release

    def hasty(allocation: Allocation, **more: Any) -> None:
        honest(allocation, **more)
        if allocation.state == AllocationState.RELEASING:
            lifecycle.free(lifecycle.partitions_of([allocation.pk]).get(allocation.pk, []))

    monkeypatch.setattr(lifecycle, "begin_release", hasty)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("plant", "noticed"),
    [
        (not_counted, "given twice|not the partitions' sum"),
        (freed_before_the_nodes_word, "still runs there"),
        (an_index_that_is_not_told, "otherwise than the rows say"),
    ],
)
def test_the_model_notices_a_planted_double_grant(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], noticed: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=noticed):
        run(3000, Phase.generate)  # it stops at the first that is noticed, usually within a hundred
