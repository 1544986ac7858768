"""Recorded fields of each kind of object."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.apps import apps
from django.db.models import Model

from appliance.api.encoding import format_timestamp

Values = dict[str, Any]


class Kind(NamedTuple):
    """The kind of the rows of one model."""

    kind: str
    name: str
    """Attribute with the name of the object; empty if it has none."""
    fields: tuple[str, ...] = ()
    """Recorded fields, where the appliance sets most columns. Empty: all columns."""
    project: str = ""
    """Attribute with the id of the project whose members may see the record."""
    secrets: tuple[str, ...] = ()
    """Columns of which only `…_is_set` is recorded."""


UNRECORDED = {"id", "version", "created_at", "changed_by"}

KINDS: dict[str, Kind] = {
    "accounts.user": Kind(
        "user", "username", ("username", "email", "is_active", "must_change_password")
    ),
    "accounts.group": Kind("group", "name"),
    "accounts.groupmember": Kind("group_member", ""),
    "accounts.department": Kind("department", "name"),
    "accounts.project": Kind("project", "name", project="pk"),
    "accounts.customrole": Kind("role", "name"),
    "accounts.rolebinding": Kind("role_binding", "role", project="project_id"),
    "accounts.apitoken": Kind(
        "token", "name", ("name", "user_id", "expires_at", "scopes", "networks", "made_with_id")
    ),
    "configuration.storedsettings": Kind("settings", "", ("values", "hidden")),
    "signin.devicelogin": Kind("device_login", "client", ("client", "address", "is_denied")),
    "signin.passkey": Kind("passkey", "name", ("name", "user_id")),
    "notifications.notificationchoice": Kind("notification_choice", "", ("unwanted",)),
    "alarms.alarm": Kind("alarm", "name", ("state", "acknowledged_by"), "project_id"),
    "alarms.alarmdefinition": Kind("alarm_definition", "name", secrets=("webhook_secret",)),
    "activity.task": Kind("task", "kind", ("kind", "path", "state"), "project_id"),
    "inventory.site": Kind("site", "name"),
    "inventory.node": Kind(
        "node", "name", ("name", "state", "site_id", "labels", "notes", "locked_at", "lock_reason")
    ),
    "inventory.gpu": Kind("gpu", "uuid", ("pool_id", "held", "labels", "notes")),
    "pools.pool": Kind("pool", "name"),
    "pools.quota": Kind("quota", "subject_kind"),
    "pools.reservation": Kind("reservation", "name", project="project_id"),
    "allocations.allocation": Kind(
        "allocation",
        "name",
        (
            "state",
            "owner_id",
            "pool_id",
            "gpu_count",
            "percent",
            "memory_bytes",
            "compute_mode",
            "priority",
            "lifetime_seconds",
            "hold",
            "suspension",
            "evict_at",
            "end_reason",
        ),
        "project_id",
    ),
    "fleet.enrolmenttoken": Kind("enrolment_token", "", ("node_id", "expires_at")),
    "fleet.sshhostkey": Kind(
        "ssh_host_key", "address", ("address", "port", "key_type", "sha256", "confirmed_by")
    ),
    "backups.backup": Kind("backup", "name", ("name", "destination", "size_bytes", "version")),
    "keys.keyset": Kind("key", "kind", ("kind", "phase", "hold_seconds")),
}
"""Kind by label of the model. `sha256` is the fingerprint of a public key."""


def kind_of(row: Model) -> Kind:
    return KINDS[row._meta.label_lower]


@cache
def fields_of(label: str) -> tuple[str, ...]:
    """Return the recorded fields of a model: those of its kind, or its columns."""
    kind, columns = KINDS[label], apps.get_model(label)._meta.concrete_fields
    return kind.fields or tuple(
        f"{f.name}_is_set" if f.name in kind.secrets else f.attname
        for f in columns
        if f.name not in UNRECORDED
    )


def recorded_fields(row: Model) -> Values:
    """Return the recorded fields of a row in the types of JSON."""
    return {name: json_value(getattr(row, name)) for name in fields_of(row._meta.label_lower)}


def values_of(row: Model) -> Values:
    """Return the recorded fields of a row and its version, which tells its changes apart."""
    version = getattr(row, "version", None)
    return recorded_fields(row) | ({"version": version} if isinstance(version, int) else {})


def json_value(value: object) -> object:
    if isinstance(value, datetime):
        return format_timestamp(value)
    return str(value) if isinstance(value, UUID | str) else value
