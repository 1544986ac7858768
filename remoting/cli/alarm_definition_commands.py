"""The commands `busbar alarm-definition`."""

from __future__ import annotations

from remoting.cli.api_fields import readable_fields_of
from remoting.cli.collection_commands import Collection

COLUMNS = ["name", "enabled", "severity", "object_kind", "condition", "is_builtin"]
WIDE = ["threshold", "site", "node", "gpu", "pool", "id"]
MORE_FIELDS = readable_fields_of("alarm-definitions", *COLUMNS)
DEFINITIONS = Collection(
    "alarm-definitions",
    "Manage what raises alarms, where, and what is done then.",
    COLUMNS,
    WIDE,
    [*COLUMNS[1:], *MORE_FIELDS, "webhook_secret_is_set", "id"],
    {
        "enabled": "--enable/--disable",
        "enters_maintenance": "--enter-maintenance/--no-maintenance",
    },
)
DEFINITIONS.lists("List alarm definitions by name.", order="name")
DEFINITIONS.creates(
    "Create an alarm definition, a warning without --severity, and print its id.",
    severity="warning",
)
DEFINITIONS.changes(columns=[*COLUMNS, *WIDE])
DEFINITIONS.deletes(
    "Delete an alarm definition and clear its alarms. Those of the product can be disabled.",
    "its rules; its alarms are cleared",
)
DEFINITIONS.shows()
