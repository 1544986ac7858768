"""The keys of the appliance: one signs, and others may be accepted."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class KeyKind(models.TextChoices):
    CA = "ca"
    TICKET_KEY = "ticket-key"


class Phase(models.TextChoices):
    IDLE = "idle"
    """One key, which signs and is accepted."""
    DISTRIBUTE = "distribute"
    """The current key signs; the next one is accepted, too."""
    USE = "use"
    """The next key signs; the current one is still accepted."""
    ROLL_BACK = "roll_back"
    """The current key signs again; the next one is still accepted."""


class KeySet(models.Model):
    """The keys of one kind. Without a row there is one key, in slot ""."""

    kind = models.CharField(max_length=20, primary_key=True, choices=KeyKind.choices)
    current = models.CharField(max_length=20, blank=True)
    """Slot: the part of the file's name that identifies the key."""
    next = models.CharField(max_length=20, blank=True)
    phase = models.CharField(max_length=20, choices=Phase.choices, default=Phase.IDLE)
    phase_since = models.DateTimeField(default=timezone.now)
    hold_seconds = models.FloatField(default=0.0)
    """Time for which the next key is at least distributed before it is used."""
    generations = models.JSONField(default=dict)
    """The generation of each node, by id, that contains the keys of this phase."""
