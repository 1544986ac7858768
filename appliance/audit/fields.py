"""Recorded fields of each kind of object. Other fields are never recorded."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Model

from appliance.api.encoding import format_timestamp

Values = dict[str, Any]


class Kind(NamedTuple):
    """The kind of the rows of one model."""

    kind: str
    name: str
    """Attribute with the name of the object; empty if it has none."""
    fields: tuple[str, ...]
    project: str = ""
    """Attribute with the id of the project whose members may see the record."""


PLACE = ("project_id", "department_id", "site_id", "node_id", "gpu_id", "pool_id")

KINDS: dict[str, Kind] = {
    "accounts.user": Kind(
        "user", "username", ("username", "email", "is_active", "must_change_password")
    ),
    "accounts.group": Kind("group", "name", ("name",)),
    "accounts.groupmember": Kind("group_member", "", ("group_id", "user_id", "member_group_id")),
    "accounts.department": Kind("department", "name", ("name",)),
    "accounts.project": Kind("project", "name", ("name", "department_id", "labels"), "pk"),
    "accounts.customrole": Kind("role", "name", ("name", "privileges")),
    "accounts.rolebinding": Kind(
        "role_binding", "role", ("role", "user_id", "group_id", *PLACE), "project_id"
    ),
    "accounts.apitoken": Kind(
        "token", "name", ("name", "user_id", "expires_at", "scopes", "networks", "made_with_id")
    ),
    "configuration.storedsettings": Kind("settings", "", ("values", "hidden")),
    "signin.devicelogin": Kind("device_login", "client", ("client", "address", "is_denied")),
    "signin.passkey": Kind("passkey", "name", ("name", "user_id")),
    "notifications.notificationchoice": Kind("notification_choice", "", ("unwanted",)),
    "alarms.alarm": Kind("alarm", "name", ("state", "acknowledged_by"), "project_id"),
    "alarms.alarmdefinition": Kind(
        "alarm_definition",
        "name",
        (
            "name",
            "enabled",
            "severity",
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
            "raise_after_seconds",
            "clear_after_seconds",
            "site_id",
            "node_id",
            "gpu_id",
            "pool_id",
            "mail_users",
            "webhook_url",
            "webhook_secret_is_set",
            "script",
            "enters_maintenance",
        ),
    ),
    "activity.task": Kind("task", "kind", ("kind", "path", "state"), "project_id"),
    "inventory.site": Kind("site", "name", ("name", "notes")),
    "inventory.node": Kind(
        "node", "name", ("name", "state", "site_id", "labels", "notes", "locked_at", "lock_reason")
    ),
    "inventory.gpu": Kind("gpu", "uuid", ("pool_id", "held", "labels", "notes")),
    "pools.pool": Kind(
        "pool",
        "name",
        (
            "name",
            "labels",
            "policies",
            "fallbacks",
            "max_lifetime_seconds",
            "max_idle_seconds",
            "max_late_seconds",
            "network",
            "admit_new_gpus",
            "required_isolation",
            "project_ids",
        ),
    ),
    "pools.quota": Kind(
        "quota",
        "subject_kind",
        ("subject_kind", "subject_id", "quota_percent", "limit_percent", "borrows", "weight"),
    ),
    "pools.reservation": Kind(
        "reservation",
        "name",
        ("name", "pool_id", "project_id", "gpu_count", "percent", "starts_at", "ends_at"),
        "project_id",
    ),
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


def recorded_fields(row: Model) -> Values:
    """Return the recorded fields of a row in the types of JSON."""
    return {name: json_value(getattr(row, name)) for name in kind_of(row).fields}


def values_of(row: Model) -> Values:
    """Return the recorded fields of a row and its version, which tells its changes apart."""
    version = getattr(row, "version", None)
    return recorded_fields(row) | ({"version": version} if isinstance(version, int) else {})


def json_value(value: object) -> object:
    if isinstance(value, datetime):
        return format_timestamp(value)
    return str(value) if isinstance(value, UUID | str) else value
