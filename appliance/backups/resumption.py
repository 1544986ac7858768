"""Changes of a restored database before an appliance uses it (ADR 94).

Nodes may have seen later states than the database contains.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import F, OuterRef, Subquery

from appliance.activity.events import emit
from appliance.allocations.models import Allocation, Partition
from appliance.audit.records import record
from appliance.configuration.storage import stored
from appliance.db.writer import write_transaction
from appliance.inventory.models import Gpu, Node

LEAP = 1 << 32
"""More generations than an appliance reaches between two backups."""


@write_transaction
def resume(*, backup: str, created_at: datetime) -> None:
    """Leave the generations that nodes may have seen behind, and record the restore.

    What a node reports about an earlier state must not count as its answer to a later one.
    """
    Node.objects.update(generation=F("generation") + LEAP)
    generation = Gpu.objects.filter(pk=OuterRef("gpu_id")).values("node__generation")
    Partition.objects.update(generation=Subquery(generation))
    Allocation.objects.exclude(suspension="").update(
        suspension_revision=F("suspension_revision") + LEAP, suspension_reports={}
    )
    record(stored(), "restored", {}, {"backup": backup, "created_at": created_at.isoformat()})
    emit(
        "appliance.restored",
        path="appliance",
        actor="busbar-admin",
        message=f"The appliance was restored from backup {backup} of "
        f"{created_at:%Y-%m-%d %H:%M:%S} UTC. Later changes are lost.",
        backup=backup,
    )
