"""Events and feed updates for nodes that become reachable or unreachable.

Reachability is computed from heartbeats in memory, so no row changes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

from appliance.activity.events import emit
from appliance.db.prepared import Select
from appliance.db.writer import TRANSIENT_ERRORS, run_each_in_savepoint, write_transaction
from appliance.inventory.models import Node
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NodeSettings
from appliance.telemetry import reachability

SELECT_NODE_IDS = Select(lambda: Node.objects.present().values_list("pk"))
_reachable: dict[UUID, bool] = {}
_started = time.monotonic()


def publish_reachability_changes() -> None:
    """Compare the reachability of all nodes with that of the last call. Called every second.

    After a start, nodes have `unreachable_seconds` to reconnect before they count as unreachable.
    """
    node_ids = [node_id for (node_id,) in SELECT_NODE_IDS.rows()]
    unreachable = reachability.unreachable(node_ids)
    starting = time.monotonic() - _started < current(NodeSettings).unreachable_seconds
    found, changed = {}, {}
    for node_id in node_ids:
        reachable, before = node_id not in unreachable, _reachable.get(node_id)
        if before is None and not reachable and starting:
            continue
        found[node_id] = reachable
        if before is not None and before != reachable:
            changed[node_id] = reachable
    if changed:
        record_reachability_changes(reachable=changed)
    _reachable.update(found)  # after the commit: a write that fails is repeated by the next call


@write_transaction
def record_reachability_changes(*, reachable: Mapping[UUID, bool]) -> None:
    def announce(node: Node) -> None:
        kind, message = (
            ("node.reachable", "is reachable again")
            if reachable[node.pk]
            else (
                "node.unreachable",
                "is unreachable; its sessions continue, and nothing new is placed on it",
            )
        )
        emit(kind, path=node.path, object_id=node.pk, message=f"Node {node.name} {message}.")

    nodes = Node.objects.filter(pk__in=reachable)
    run_each_in_savepoint(
        "nodes: event of reachability",
        nodes,
        announce,
        lambda n: n.name,
        propagates=TRANSIENT_ERRORS,
    )
