"""Settings of pools that nodes get with the grants of allocations."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models.signals import post_save

from appliance.allocations.models import Partition
from appliance.inventory.generations import increment_generations
from appliance.pools.models import Pool

GRANTED = {"max_late_seconds"}


def renew_grants(
    instance: Pool, created: bool, update_fields: Collection[str] | None, **_: object
) -> None:
    """Let nodes learn a setting that has changed, for the allocations that they hold."""
    if created or GRANTED.isdisjoint(update_fields or GRANTED):
        return
    held = Partition.objects.filter(allocation__placed_pool=instance)
    increment_generations(held.values_list("gpu__node_id", flat=True).distinct())


post_save.connect(renew_grants, sender=Pool, dispatch_uid="renew-grants")
