"""Sites: where nodes stand. A request may name one as it names a label: site=NAME."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F

from appliance.activity.services import emit
from appliance.errors import ApplianceError, Code
from appliance.inventory import changes
from appliance.inventory.models import Node, Site
from appliance.writer import writes


def site_named(name: str) -> Site | None:
    """None for an empty name."""
    site = Site.objects.filter(name=name).first() if name else None
    if name and site is None:
        raise ApplianceError(
            Code.NOT_FOUND, f"There is no site {name}; `busbar site list` shows them."
        )
    return site


def refuse_taken(name: str) -> None:
    if Site.objects.filter(name=name).exists():
        raise ApplianceError(Code.CONFLICT, f"There is a site {name} already.")


@writes
def site_create(*, name: str, notes: str, actor: str) -> Site:
    refuse_taken(name)
    site = Site.objects.create(name=name, notes=notes)
    emit(
        "site.created",
        path=site.path,
        object_id=site.pk,
        actor=actor,
        message=f"Site {name} was made.",
    )
    return site


@writes
def site_change(
    *, site_id: UUID, name: str | None = None, notes: str | None = None, actor: str
) -> Site:
    """A new name is what requests must ask for from now on."""
    site = Site.objects.get(pk=site_id)
    changed = {
        key: value
        for key, value in (("name", name), ("notes", notes))
        if value is not None and value != getattr(site, key)
    }
    if not changed:
        return site
    if "name" in changed:
        refuse_taken(changed["name"])
        for node_id in site.nodes.values_list("pk", flat=True):
            changes.node_changed(node_id)
    Site.objects.filter(pk=site_id).update(version=F("version") + 1, **changed)
    emit(
        "site.changed",
        path=site.path,
        object_id=site.pk,
        actor=actor,
        message=f"Site {site.name}: {', '.join(changed)} changed.",
    )
    site.refresh_from_db()
    return site


@writes
def site_delete(*, site_id: UUID, actor: str) -> None:
    """Refused with the blockers while nodes stand there."""
    site = Site.objects.get(pk=site_id)
    nodes = list(Node.objects.present().filter(site=site))
    if nodes:
        names = [{"kind": "node", "id": str(n.pk), "name": n.name, "state": n.state} for n in nodes]
        raise ApplianceError(
            Code.IN_USE,
            f"{len(nodes)} nodes stand at site {site.name}; move them first.",
            blockers=names,
        )
    emit(
        "site.deleted",
        path=site.path,
        object_id=site.pk,
        actor=actor,
        message=f"Site {site.name} was deleted.",
    )
    site.delete()
