"""The command `busbar site`."""

from __future__ import annotations

from remoting.cli.collection_commands import Collection

SITES = Collection("sites", "Manage sites. A request selects a site with --label site=NAME.")
SITES.lists()
SITES.creates(
    "Create a site and print its id. Assign nodes with `busbar node set NODE --site NAME`."
)
SITES.changes()
SITES.deletes("Delete a site. Fails while nodes are assigned to it.", "its notes")
