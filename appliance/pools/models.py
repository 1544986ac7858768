"""Pools: named sets of GPUs that allocations draw from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.utils import timezone

from appliance.accounts.permissions import can
from appliance.identifiers import uuid7

if TYPE_CHECKING:
    from appliance.accounts.models import User

DEFAULT_POOL = "default"


class PoolQuerySet(models.QuerySet["Pool"]):
    def visible_to(self, user: User) -> PoolQuerySet:
        return self if can(user, "pools.view") else self.none()


class Pool(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    labels = models.JSONField(default=dict, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = PoolQuerySet.as_manager()

    @property
    def path(self) -> str:
        return f"pools/{self.pk}"
