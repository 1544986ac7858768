"""A user of the REST API with nodes that can suspend, and the reports of these nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from appliance.allocations.models import Allocation
from appliance.allocations.session_reports import Progress
from appliance.fleet import reports
from appliance.inventory.models import Node
from nodes.protocol import fleet_pb2

Headers = dict[str, str] | None
URL = "/api/v1/allocations"
MIB = 1 << 20


def report(
    node: Node,
    pk: str = "",
    state: str = "",
    released: int = 0,
    reason: str = "",
    lag: int = 0,
    over: Mapping[str, Sequence[int]] | None = None,
) -> Progress:
    """Report the newest generation, and the state of a suspension with the revision that it has."""
    node.refresh_from_db()
    message = fleet_pb2.Report(generation=node.generation, knows_over=True)
    for allocation, held in (over or {}).items():
        message.over.add(allocation_id=UUID(allocation).bytes, held_bytes=held)
    if pk:
        revision = Allocation.objects.get(pk=pk).suspension_revision - lag
        message.suspensions.add(
            allocation_id=UUID(pk).bytes,
            revision=revision,
            state=state,
            released_bytes=released,
            reason=reason,
        )
    return reports.process_report(node.pk, message)


class Client:
    """A REST client and nodes that can suspend."""

    def __init__(self, client: Any, *nodes: Node) -> None:
        self.client, self.nodes = client, nodes
        self.node = nodes[0]
        Node.objects.update(suspends_sessions=True)

    def allocate(self, **request: Any) -> str:
        created = self.client.post(URL, {"percent": 50} | request, format="json")
        assert created.status_code == 202, created.content
        for node in self.nodes:
            report(node)
        return str(created.json()["id"])

    def post(
        self, pk: str, action: str, status: int = 202, headers: Headers = None
    ) -> dict[str, Any]:
        response = self.client.post(f"{URL}/{pk}/{action}", headers=headers)
        assert response.status_code == status, response.content
        return dict(response.json())

    def suspended(self, **request: Any) -> str:
        """Allocate, suspend and report it."""
        pk = self.allocate(**request)
        self.post(pk, "suspend")
        for node in self.nodes:
            report(node, pk, "suspended", 300 * MIB)
        assert self.read(pk)["state"] == "suspended"
        return pk

    def read(self, pk: str) -> dict[str, Any]:
        return dict(self.client.get(f"{URL}/{pk}").json())

    def state(self, pk: str) -> tuple[str, str | None]:
        row = self.read(pk)
        return row["state"], row["suspension"] and row["suspension"]["state"]
