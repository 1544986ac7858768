"""The commands `busbar alarm-definition`."""

from __future__ import annotations

from remoting.cli.api import Api
from remoting.cli.api_fields import fields_of
from remoting.cli.collection_commands import Collection
from remoting.cli.sheet import Related, Row

COLUMNS = ["name", "enabled", "severity", "object_kind", "condition", "is_builtin"]
MORE = ["threshold", "site", "node", "gpu", "pool", "id"]
OTHERS = fields_of("alarm-definitions", *COLUMNS, "webhook_secret")
DEFINITIONS = Collection(
    "alarm-definitions",
    "Manage what raises alarms, where, and what is done then.",
    COLUMNS,
    MORE,
    [*COLUMNS[1:], *OTHERS, "webhook_secret_is_set", "id"],
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
DEFINITIONS.changes(columns=[*COLUMNS, *MORE])
DEFINITIONS.deletes(
    " and clear its alarms. Those of the product can be disabled.",
    "its rules; its alarms are cleared",
)


@DEFINITIONS.shows
def definition_show(api: Api, definition: Row) -> list[Related]:
    """Show an alarm definition."""
    return []
