"""Actions on nodes and GPUs, and the rules that their services follow as well."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet

from appliance.accounts.actions import (
    Action,
    BatchRule,
    Refusals,
    by_row,
    register_kind,
)
from appliance.accounts.models import User
from appliance.accounts.permissions import inventory_places
from appliance.accounts.places import Place
from appliance.api.errors import ApplianceError, Code
from appliance.inventory.models import Gpu, Node, NodeState, Site
from appliance.pools.models import Pool

MANAGE = "inventory.manage"


def removed_refusal(user: User, node: Node) -> ApplianceError | None:
    """Return the error for a removed node, of which only the history is left."""
    if node.state != NodeState.REMOVED:
        return None
    return ApplianceError(Code.NOT_FOUND, f"Node {node.name} is removed.")


def schedule_refusal(node: Node, *, schedulable: bool) -> ApplianceError | None:
    """Return the error of cordon or uncordon. A node in the new state already is accepted."""
    states = (NodeState.READY, NodeState.CORDONED)
    if node.state in states:
        return None
    old, new = reversed(states) if schedulable else states
    return ApplianceError(
        Code.CONFLICT, f"Node {node.name} is {node.state}; it must be {old} to become {new}."
    )


def schedule_rule(*, schedulable: bool) -> BatchRule[Node]:
    return by_row(lambda _, node: schedule_refusal(node, schedulable=schedulable))


def admission_refusals(user: User, gpus: Sequence[Gpu]) -> Refusals:
    error = None
    if not Pool.objects.exists():
        error = no_pool()
    return [error] * len(gpus)


def no_pool() -> ApplianceError:
    return ApplianceError(Code.NOT_FOUND, "There is no pool. Create one: busbar pool create")


def site_deletion_refusals(user: User, sites: Sequence[Site]) -> Refusals:
    """Return the error IN_USE, with the nodes as blockers, for each site that has any."""
    blockers: dict[UUID | None, list[dict[str, object]]] = {}
    nodes = Node.objects.present().filter(site__in=sites)
    for site_id, pk, name, state in nodes.values_list("site_id", "pk", "name", "state"):
        blocker: dict[str, object] = {"kind": "node", "id": str(pk), "name": name, "state": state}
        blockers.setdefault(site_id, []).append(blocker)
    return [has_nodes(site, blockers[site.pk]) if site.pk in blockers else None for site in sites]


def has_nodes(site: Site, blockers: list[dict[str, object]]) -> ApplianceError:
    count = f"{len(blockers)} node{'' if len(blockers) == 1 else 's'}"
    return ApplianceError(
        Code.IN_USE,
        f"Site {site.name} has {count}. Move them to another site first.",
        blockers=blockers,
    )


def visible_gpus(user: User) -> QuerySet[Gpu]:
    rows = Gpu.objects.visible_to(user)
    return rows.select_related("node") if inventory_places(user, MANAGE) else rows


def find_gpu(name: str) -> Gpu | None:
    """Return the GPU with this name, NODE/INDEX."""
    node, _, index = name.rpartition("/")
    if not (node and index.isascii() and index.isdecimal() and len(index) < 5):
        return None
    rows = Gpu.objects.filter(node__name=node, index=int(index), present=True)
    return rows.exclude(node__state=NodeState.REMOVED).first()


def place_in_inventory(row: Site | Node | Gpu) -> Place:
    return Place(inventory=row.places())


NODES = register_kind(
    "nodes",
    Node.objects.visible_to,
    place_in_inventory,
    lambda name: Node.objects.present().filter(name=name).first(),
)
UPDATE_NODE = NODES.add(Action("update", MANAGE, by_row(removed_refusal), Node.places))
CORDON = NODES.add(Action("cordon", MANAGE, schedule_rule(schedulable=False), Node.places))
UNCORDON = NODES.add(Action("uncordon", MANAGE, schedule_rule(schedulable=True), Node.places))
UNLOCK = NODES.add(Action("unlock", "fleet.enrol", by_row(removed_refusal)))
GPUS = register_kind("gpus", visible_gpus, place_in_inventory, find_gpu)
UPDATE_GPU = GPUS.add(Action("update", MANAGE, places=Gpu.places))
ADMIT = GPUS.add(Action("admit", MANAGE, admission_refusals))
SITES = register_kind(
    "sites",
    Site.objects.visible_to,
    place_in_inventory,
    lambda name: Site.objects.filter(name=name).first(),
)
UPDATE_SITE = SITES.add(Action("update", MANAGE, places=Site.places))
RENAME_SITE = SITES.add(Action[Site]("rename", MANAGE))
DELETE_SITE = SITES.add(Action("delete", MANAGE, site_deletion_refusals))
