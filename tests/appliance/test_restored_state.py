"""What a restore changes in the database: generations that nodes may have seen are left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from appliance.accounts.models import Project
from appliance.activity.models import Event
from appliance.allocations.models import Allocation, AllocationState, Partition
from appliance.audit.models import AuditRecord
from appliance.backups import resumption
from appliance.fleet.desired_state import build_desired_state
from appliance.fleet.reports import record_applied
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast

pytestmark = pytest.mark.django_db


def test_report_of_the_time_after_the_backup_is_no_answer_to_a_later_state(
    cast: Cast, add_node: Callable[..., Node]
) -> None:
    node = add_node()
    allocation = Allocation.objects.create(
        owner=cast.alice,
        project=Project.objects.get(name="default"),
        state=AllocationState.PREPARING,
    )
    partition = Partition.objects.create(
        allocation=allocation,
        gpu=node.gpus.get(),
        position=0,
        memory_bytes=1 << 30,
        compute_percent=10,
        generation=node.generation,
    )
    seen = node.generation + 5
    resumption.resume(backup="0123abcd", created_at=timezone.now())
    record_applied(node.pk, seen)
    allocation.refresh_from_db()
    partition.refresh_from_db()
    assert allocation.state == AllocationState.PREPARING
    assert partition.generation == build_desired_state(node.pk).generation > seen

    record_applied(node.pk, partition.generation)
    allocation.refresh_from_db()
    assert allocation.state == AllocationState.ACTIVE
    assert Event.objects.filter(kind="appliance.restored").count() == 1
    assert AuditRecord.objects.filter(action="settings.restored").count() == 1
