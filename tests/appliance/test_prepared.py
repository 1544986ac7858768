"""Prepared statements return the same results as their query sets."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from appliance.accounts.models import Project
from appliance.activity.models import Event
from appliance.allocations import grants, lifecycle, queries, services
from appliance.allocations.active_allocations import load_active_allocations
from appliance.allocations.models import Allocation, AllocationState, Partition
from appliance.db.prepared import Select, Update, insert
from appliance.inventory.models import Gpu, Node
from tests.appliance.conftest import Cast

AddNode = Callable[..., Node]

pytestmark = pytest.mark.django_db


@pytest.fixture
def allocations(cast: Cast, add_node: AddNode) -> list[Allocation]:
    add_node(gpus=2)
    sizes = [(1, 25), (2, 10), (1, 100)]
    return [
        services.create_allocation(
            owner=cast.alice,
            project_name="default",
            pool_name="default",
            gpu_count=n,
            percent=p,
        )
        for n, p in sizes
    ]


def test_rows_and_objects_equal_those_of_the_query_set(allocations: list[Allocation]) -> None:
    ids = [a.pk for a in allocations]
    for chosen in (ids[:1], ids, ids[1:]):
        assert grants.SELECT_BY_ALLOCATION.rows(allocation_ids=chosen) == [
            list(row) for row in grants.SELECT_BY_ALLOCATION.build(chosen)
        ]
        kept = {a.pk: a for a in queries.ALLOCATIONS_WITH_NAMES.objects(ids=chosen)}
        for wanted in queries.ALLOCATIONS_WITH_NAMES.build(chosen):
            found = kept.pop(wanted.pk)
            assert {k: v for k, v in vars(found).items() if k != "_state"} == {
                k: v for k, v in vars(wanted).items() if k != "_state"
            }
        assert not kept
    everything = load_active_allocations()
    assert load_active_allocations(ids) == {i: a for i, a in everything.items() if i in ids}
    assert grants.SELECT_BY_ALLOCATION.rows(allocation_ids=[uuid.uuid4()]) == []


def test_loaded_object_can_be_changed_and_saved(allocations: list[Allocation]) -> None:
    (found,) = queries.ALLOCATIONS_BY_ID.objects(ids=[allocations[0].pk])
    found.name, found.labels = "mine", {"a": "b"}
    found.save()
    again = Allocation.objects.get(pk=found.pk)
    assert (again.name, again.labels, again.owner.username) == ("mine", {"a": "b"}, "alice")


def test_update_changes_matching_rows_and_returns_their_number(
    allocations: list[Allocation],
) -> None:
    gpu = Gpu.objects.first()
    assert gpu is not None
    before = gpu.taken_percent
    lifecycle.TAKE_CAPACITY(gpu_id=gpu.pk, percent=-before, memory_bytes=0)
    gpu.refresh_from_db()
    assert gpu.taken_percent == 0
    at = timezone.now() - timedelta(days=3)
    rename = Update(
        lambda pk, name, at: (
            Allocation.objects.filter(pk=pk),
            {"name": name, "active_at": at, "version": F("version") + 1},
        )
    )
    for n, a in enumerate(allocations):
        assert rename(pk=a.pk, name=f"it's {n} %s", at=at + timedelta(hours=n)) == 1
        row = Allocation.objects.get(pk=a.pk)
        assert (row.name, row.active_at, row.version) == (
            f"it's {n} %s",
            at + timedelta(hours=n),
            a.version + 2 if row.partitions.exists() else a.version + 1,
        )
    assert rename(pk=uuid.uuid4(), name="", at=at) == 0


def test_inserted_row_equals_a_saved_one(cast: Cast) -> None:
    project = insert(Project(name="made", labels={"a": [1, None]}))
    assert not project._state.adding
    kept = Project.objects.get(name="made")
    assert (kept.pk, kept.labels, kept.department, kept.version, kept.created_at) == (
        project.pk,
        {"a": [1, None]},
        None,
        1,
        project.created_at,
    )
    event = insert(
        Event(kind="k", path="p", actor="a", message="m", object_id=project.pk, data={"x": "y"})
    )
    assert Event.objects.get(pk=event.pk).object_id == project.pk


def test_value_that_becomes_part_of_the_sql_is_rejected(cast: Cast) -> None:
    with pytest.raises(TypeError, match="became part of the SQL"):
        Select(lambda n: Partition.objects.all()[:n]).rows(n=5)
    with pytest.raises(TypeError, match="no placeholder"):
        Select(lambda share: Allocation.objects.filter(percent__gt=share)).rows(share=0.5)


def test_each_value_of_a_flag_has_its_own_statement(allocations: list[Allocation]) -> None:
    preemptible = Select(
        lambda flag, ids: Allocation.objects.filter(preemptible=flag, pk__in=ids).values_list("pk")
    )
    ids = [a.pk for a in allocations]
    Allocation.objects.filter(pk=ids[0]).update(preemptible=False)
    assert [sorted(preemptible.rows(flag=flag, ids=ids)) for flag in (False, True, False)] == [
        [[ids[0]]],
        sorted([[ids[1]], [ids[2]]]),
        [[ids[0]]],
    ]


def test_transitions_with_different_columns_have_separate_statements(
    allocations: list[Allocation],
) -> None:
    a = Allocation.objects.get(pk=allocations[0].pk)
    assert lifecycle.transition(
        a, [AllocationState.PREPARING], AllocationState.ACTIVE, message="", active_at=timezone.now()
    )
    assert not lifecycle.transition(
        a, [AllocationState.PREPARING], AllocationState.RELEASING, message="", end_reason="no"
    )
    assert lifecycle.transition(
        a,
        [AllocationState.ACTIVE, AllocationState.SUSPENDED],
        AllocationState.RELEASING,
        message="",
        end_reason="yes",
    )
    row = Allocation.objects.get(pk=a.pk)
    assert (row.state, row.end_reason, row.version) == ("releasing", "yes", a.version)
