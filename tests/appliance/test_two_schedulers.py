"""Several appliances on one PostgreSQL: both schedule, and the guards in the rows keep grants single."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from appliance.accounts.models import Project, Role, RoleBinding, User
from appliance.allocations import book, lifecycle, services
from appliance.allocations.models import Allocation, Partition
from appliance.inventory.models import Gpu, Node
from appliance.pools.services import ensure_default_pool

pytestmark = [
    pytest.mark.skipif(
        connection.vendor != "postgresql",
        reason="two appliances on SQLite are refused: test_process.py; CI runs this on PostgreSQL too",
    ),
    pytest.mark.django_db(transaction=True),
]
AddNode = Callable[..., Node]
ROUNDS, SCHEDULERS = 8, 4


def ask_at_once(
    user: User, wanted: services.Wanted, monkeypatch: pytest.MonkeyPatch
) -> list[BaseException]:
    """Each on a thread and a connection of its own; all have read the rows before the first one writes."""
    problems: list[BaseException] = []
    all_have_read, opened = threading.Barrier(SCHEDULERS), book.opened

    def read_then_wait(*given: Any) -> Any:
        found = opened(*given)
        all_have_read.wait(20)
        return found

    def one() -> None:
        try:
            services.allocation_create(owner=user, project_name="p", wanted=wanted)
        except BaseException as problem:
            problems.append(problem)
        finally:
            connection.close()

    with monkeypatch.context() as patched:
        patched.setattr(book, "opened", read_then_wait)
        threads = [threading.Thread(target=one) for _ in range(SCHEDULERS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return problems


def rounds(add_node: AddNode, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_default_pool()
    project, user = Project.objects.create(name="p"), User.objects.create(username="u")
    RoleBinding.objects.create(user=user, project=project, role=Role.USER)
    add_node("a", gpus=2)
    add_node("b", gpus=2)
    for number in range(ROUNDS):
        assert (
            ask_at_once(
                user,
                services.Wanted("default", 1 + number % 3, (60, 100, 40)[number % 3]),
                monkeypatch,
            )
            == []
        )
        look()
        services.queue_advance()
        look()
        lifecycle.free(Partition.objects.all())
        Allocation.objects.all().delete()


def look() -> None:
    for gpu in Gpu.objects.all():
        given = Partition.objects.filter(gpu=gpu).aggregate(p=Sum("compute_percent"))["p"] or 0
        assert given <= 100, "given twice"
        assert given == gpu.taken_percent
    granted = Allocation.objects.filter(state="preparing")
    assert granted, "nobody won"
    for allocation in granted:
        assert allocation.partitions.count() == allocation.gpu_count, "granted twice or in part"


def test_schedulers_that_run_at_once_grant_once(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(add_node, monkeypatch)


def test_the_test_notices_when_a_guard_is_gone(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check constraints on the GPU's row, stale decisions both win."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE inventory_gpu DROP CONSTRAINT gpu_compute_not_given_twice")
        cursor.execute("ALTER TABLE inventory_gpu DROP CONSTRAINT gpu_memory_not_given_twice")
    try:
        with pytest.raises(AssertionError, match="given twice"):
            rounds(add_node, monkeypatch)
    finally:
        Allocation.objects.all().delete()
        Gpu.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE inventory_gpu ADD CONSTRAINT gpu_compute_not_given_twice CHECK (taken_percent <= 100)"
            )
            cursor.execute(
                "ALTER TABLE inventory_gpu ADD CONSTRAINT gpu_memory_not_given_twice CHECK (taken_memory_bytes <= memory_bytes)"
            )
