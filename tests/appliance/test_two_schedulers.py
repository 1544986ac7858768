"""Several schedulers on one PostgreSQL database: constraints prevent double grants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from appliance.accounts.models import Project, Role, RoleBinding, User
from appliance.allocations import lifecycle, scheduler, services, snapshot_loader
from appliance.allocations.grants import load_partitions
from appliance.allocations.models import Allocation, Partition
from appliance.inventory.models import Gpu, Node
from appliance.pools.services import ensure_default_pool

pytestmark = [
    pytest.mark.skipif(
        connection.vendor != "postgresql",
        reason="SQLite allows one appliance only, see running/test_process.py",
    ),
    pytest.mark.django_db(transaction=True),
]
AddNode = Callable[..., Node]
ROUNDS, SCHEDULERS = 8, 4


def request_concurrently(
    user: User, gpu_count: int, percent: int, monkeypatch: pytest.MonkeyPatch
) -> list[BaseException]:
    """Run several schedulers in threads; all read their snapshot before the first one writes."""
    problems: list[BaseException] = []
    barrier, load_snapshot = threading.Barrier(SCHEDULERS), snapshot_loader.load_snapshot

    def load_then_wait(*args: Any) -> Any:
        loaded = load_snapshot(*args)
        barrier.wait(20)
        return loaded

    def request() -> None:
        try:
            services.create_allocation(
                owner=user,
                project_name="p",
                pool_name="default",
                gpu_count=gpu_count,
                percent=percent,
            )
        except BaseException as problem:
            problems.append(problem)
        finally:
            connection.close()

    with monkeypatch.context() as patched:
        patched.setattr(snapshot_loader, "load_snapshot", load_then_wait)
        threads = [threading.Thread(target=request) for _ in range(SCHEDULERS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return problems


def run_rounds(add_node: AddNode, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_default_pool()
    project, user = Project.objects.create(name="p"), User.objects.create(username="u")
    RoleBinding.objects.create(user=user, project=project, role=Role.USER)
    add_node("a", gpus=2)
    add_node("b", gpus=2)
    for number in range(ROUNDS):
        percent = (60, 100, 40)[number % 3]
        assert request_concurrently(user, 1 + number % 3, percent, monkeypatch) == []
        check_grants()
        scheduler.run_tick()
        check_grants()
        ids = list(Allocation.objects.values_list("pk", flat=True))
        for partitions in load_partitions(ids).values():
            lifecycle.free_partitions(partitions)
        Allocation.objects.all().delete()


def check_grants() -> None:
    for gpu in Gpu.objects.all():
        given = Partition.objects.filter(gpu=gpu).aggregate(p=Sum("compute_percent"))["p"] or 0
        assert given <= 100, "overcommitted"
        assert given == gpu.taken_percent
    granted = Allocation.objects.filter(state="preparing")
    assert granted, "no request was granted"
    for allocation in granted:
        assert allocation.partitions.count() == allocation.gpu_count, "granted twice or partially"


def test_concurrent_schedulers_grant_each_gpu_once(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_rounds(add_node, monkeypatch)


def test_missing_constraint_is_detected(add_node: AddNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check constraints of the GPU, stale decisions overcommit it."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE inventory_gpu DROP CONSTRAINT gpu_compute_not_given_twice")
        cursor.execute("ALTER TABLE inventory_gpu DROP CONSTRAINT gpu_memory_not_given_twice")
    try:
        with pytest.raises(AssertionError, match="overcommitted"):
            run_rounds(add_node, monkeypatch)
    finally:
        Allocation.objects.all().delete()
        Gpu.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE inventory_gpu "
                "ADD CONSTRAINT gpu_compute_not_given_twice CHECK (taken_percent <= 100)"
            )
            cursor.execute(
                "ALTER TABLE inventory_gpu "
                "ADD CONSTRAINT gpu_memory_not_given_twice "
                "CHECK (taken_memory_bytes <= memory_bytes)"
            )
