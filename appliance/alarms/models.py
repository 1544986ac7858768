"""Alarms, their definitions and history, and the actions that are still to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from appliance.accounts.permissions import inventory_places, projects_with
from appliance.db.identifiers import uuid7

if TYPE_CHECKING:
    from appliance.accounts.models import User

VIEW = "alarms.view"
PLACES = ("site", "node", "gpu", "pool")
"""Columns of the place of a definition."""
CONDITION_FIELDS = (
    "object_kind",
    "condition",
    "states",
    "metric",
    "comparison",
    "threshold",
    "clear_threshold",
    "event_kind",
    "xid_class",
    "window_seconds",
)
"""Fields that say when an object raises the alarm."""
YEAR = [MaxValueValidator(31_536_000)]
FINITE = [MinValueValidator(-1e18), MaxValueValidator(1e18)]


class Severity(models.TextChoices):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Condition(models.TextChoices):
    STATE = "state"
    METRIC = "metric"
    EVENT = "event"
    XID = "xid"
    CERTIFICATE_AGE = "certificate_age"
    QUEUE_WAIT = "queue_wait"
    IDLE_HELD = "idle_held"


class ObjectKind(models.TextChoices):
    APPLIANCE = "appliance"
    NODE = "node"
    GPU = "gpu"
    ALLOCATION = "allocation"


class Comparison(models.TextChoices):
    ABOVE = "above"
    BELOW = "below"


class AlarmDefinition(models.Model):
    """A rule for objects of one kind at a place of the inventory and below it.

    Without a place it holds for the whole appliance.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    notes = models.TextField(max_length=2000, blank=True)
    is_builtin = models.BooleanField(default=False)
    """It came with the product: it can be changed and disabled, not deleted."""
    enabled = models.BooleanField(default=True, help_text="Whether the definition is evaluated.")
    severity = models.CharField(max_length=10, choices=Severity.choices)
    object_kind = models.CharField(max_length=20, choices=ObjectKind.choices)
    condition = models.CharField(max_length=20, choices=Condition.choices)
    states = models.JSONField(default=list)
    metric = models.CharField(
        max_length=60, blank=True, help_text="Name of the metric (condition `metric`)."
    )
    comparison = models.CharField(
        max_length=10,
        choices=Comparison.choices,
        default=Comparison.ABOVE,
        help_text="Whether the alarm is raised `above` or `below` the threshold.",
    )
    threshold = models.FloatField(
        null=True,
        validators=FINITE,
        help_text="Limit: the value of the metric, the number of events, or seconds that a "
        "certificate has left, an allocation waits, or is idle.",
    )
    clear_threshold = models.FloatField(
        null=True,
        validators=FINITE,
        help_text="Limit of the metric beyond which a raised alarm stays, so that values near "
        "the threshold do not raise and clear it by turns. Without it: the threshold.",
    )
    event_kind = models.CharField(
        max_length=60,
        blank=True,
        help_text="Kind of the events that are counted (condition `event`), such as "
        "`node.unreachable`.",
    )
    xid_class = models.CharField(max_length=20, blank=True)
    window_seconds = models.PositiveIntegerField(
        default=0, validators=YEAR, help_text="Period in which events are counted."
    )
    raise_after_seconds = models.PositiveIntegerField(
        default=0,
        validators=YEAR,
        help_text="Seconds for which the condition must hold before the alarm is raised.",
    )
    clear_after_seconds = models.PositiveIntegerField(
        default=60,
        validators=YEAR,
        help_text="Seconds for which it must not hold before the alarm is cleared.",
    )
    site = models.ForeignKey(
        "inventory.Site", null=True, on_delete=models.CASCADE, related_name="+"
    )
    node = models.ForeignKey(
        "inventory.Node", null=True, on_delete=models.CASCADE, related_name="+"
    )
    gpu = models.ForeignKey("inventory.Gpu", null=True, on_delete=models.CASCADE, related_name="+")
    pool = models.ForeignKey("pools.Pool", null=True, on_delete=models.CASCADE, related_name="+")
    mail_users = models.JSONField(default=list)
    """Names of the users who get a mail."""
    webhook_url = models.CharField(
        max_length=500,
        blank=True,
        help_text="Address that gets a POST when the alarm is raised and when it is cleared.",
    )
    webhook_secret = models.TextField(blank=True)
    """Encrypted."""
    script = models.CharField(
        max_length=100,
        blank=True,
        help_text="Name of a script that root has placed on the appliance. It gets JSON on its "
        "standard input.",
    )
    enters_maintenance = models.BooleanField(
        default=False,
        help_text="Set the node into maintenance when the alarm is raised, with the privileges "
        "of the user who last changed the definition.",
    )
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    """The user with whose privileges actions change the inventory."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    @property
    def path(self) -> str:
        return f"alarm-definitions/{self.pk}"

    @property
    def webhook_secret_is_set(self) -> bool:
        return bool(self.webhook_secret)


class AlarmState(models.TextChoices):
    ACTIVE = "active"
    ACKNOWLEDGED = "acknowledged"
    CLEARED = "cleared"


class AlarmQuerySet(models.QuerySet["Alarm"]):
    def visible_to(self, user: User) -> AlarmQuerySet:
        """Keep alarms without a project and of projects that the user may view.

        A user with roles in the inventory only sees the alarms at their places, but not those of
        allocations, which have names: a role at a pool shows only that an allocation exists.
        """
        projects = projects_with(user, VIEW)
        if projects is None:
            return self
        seen = Q(project_id=None) | Q(project_id__in=projects) if projects else Q(pk=None)
        if places := inventory_places(user, VIEW):
            there = Q(object_id__in=places) | Q(node__in=places) | Q(pool__in=places)
            there |= Q(node__site__in=places)
            seen |= there & ~Q(object_kind=ObjectKind.ALLOCATION)
        return self.filter(seen)

    def open(self) -> AlarmQuerySet:
        """Keep alarms that are not cleared."""
        return self.filter(cleared_at=None)


class Alarm(models.Model):
    """One object that met a definition, from raise to clear."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    definition = models.ForeignKey(
        AlarmDefinition, null=True, on_delete=models.SET_NULL, related_name="alarms"
    )
    name = models.CharField(max_length=100)
    """Name of the definition when the alarm was raised."""
    severity = models.CharField(max_length=10, choices=Severity.choices)
    state = models.CharField(max_length=20, choices=AlarmState.choices, default=AlarmState.ACTIVE)
    object_kind = models.CharField(max_length=20, choices=ObjectKind.choices)
    object_id = models.UUIDField()
    """Zero for the appliance."""
    object_name = models.CharField(max_length=200)
    path = models.CharField(max_length=300)
    """Such as nodes/<id>/gpus/<id>."""
    node = models.ForeignKey(
        "inventory.Node", null=True, on_delete=models.CASCADE, related_name="alarms"
    )
    pool = models.ForeignKey(
        "pools.Pool", null=True, on_delete=models.SET_NULL, related_name="alarms"
    )
    project_id = models.UUIDField(null=True)
    message = models.CharField(max_length=500)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledged_at = models.DateTimeField(null=True)
    cleared_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = AlarmQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["definition", "object_id"],
                condition=Q(cleared_at__isnull=True),
                name="alarm_open_once",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["object_id"], name="alarm_by_object"),
            models.Index(
                fields=["cleared_at"],
                name="alarm_by_end",
                condition=Q(cleared_at__isnull=False),
            ),
        ]

    def places(self) -> frozenset[UUID | None]:
        """Return where a role binding covers this object. Reads the node."""
        site_id = self.node.site_id if self.node else None
        return frozenset({self.object_id, self.node_id, site_id, self.pool_id} - {None})


class AlarmEntry(models.Model):
    """One step of an alarm, in the order of the primary key."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    alarm = models.ForeignKey(Alarm, on_delete=models.CASCADE, related_name="history")
    kind = models.CharField(max_length=20)
    """raised, acknowledged, cleared, action or action_failed."""
    actor = models.CharField(max_length=150)
    message = models.CharField(max_length=500)
    created_at = models.DateTimeField(default=timezone.now)


class ActionKind(models.TextChoices):
    WEBHOOK = "webhook"
    SCRIPT = "script"
    MAINTENANCE = "maintenance"


class AlarmAction(models.Model):
    """An action that is still to be done. The row is deleted when it is done or given up."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    alarm = models.ForeignKey(Alarm, on_delete=models.CASCADE, related_name="actions")
    definition = models.ForeignKey(AlarmDefinition, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20, choices=ActionKind.choices)
    content = models.JSONField()
    """The message for the webhook or script."""
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["next_attempt_at"], name="alarm_action_due")
        ]
