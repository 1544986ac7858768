"""The services that suspend and resume an allocation."""

from __future__ import annotations

from uuid import UUID

from appliance.accounts.actions import raise_refusal
from appliance.accounts.models import User
from appliance.activity.models import Task
from appliance.activity.tasks import register_canceller
from appliance.allocations import suspending
from appliance.allocations.actions import resume_refusal, suspend_refusals
from appliance.allocations.lifecycle import SUSPEND_TASK
from appliance.allocations.models import Allocation
from appliance.allocations.queries import allocation_by_id
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db.writer import write_transaction


@write_transaction
def suspend(*, allocation_id: UUID, user: User) -> None:
    """Move the device memory of all sessions of an active allocation to host memory.

    The nodes do it as soon as the work of the sessions has ended. If one session cannot be
    suspended, all are resumed. A call of a program resumes the allocation.

    Raises:
        ApplianceError: DENIED for others than owner and managers, CONFLICT if the allocation is
            not active or changed concurrently, NOT_SUPPORTED if a node cannot suspend sessions.
    """
    allocation = allocation_by_id(allocation_id)
    (refusal,) = suspend_refusals(user, [allocation])
    raise_refusal(refusal)
    before = values_of(allocation)
    suspending.begin(allocation, user)
    record_changed(allocation, before)


@write_transaction
def resume(*, allocation_id: UUID, user: User) -> None:
    """Move the memory of all sessions back, also if their suspension is still in progress.

    Raises:
        ApplianceError: DENIED for others than owner and managers, CONFLICT if the allocation is
            not suspended, or changed concurrently.
    """
    allocation = allocation_by_id(allocation_id)
    raise_refusal(resume_refusal(user, allocation))
    before = values_of(allocation)
    suspending.resume(allocation, user)
    record_changed(allocation, before)


def cancel_suspension(task: Task, user: User) -> None:
    """Resume the allocation, unless its suspension has ended meanwhile."""
    allocation = Allocation.objects.get(pk=UUID(task.path.rpartition("/")[2]))
    if resume_refusal(user, allocation) is None:
        resume(allocation_id=allocation.pk, user=user)


register_canceller(
    SUSPEND_TASK, "allocations.manage", cancel_suspension, own_privilege="allocations.use"
)
