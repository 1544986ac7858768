"""Sites. The name of a node's site also acts as its label `site`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import F

from appliance.accounts.actions import raise_refusal
from appliance.accounts.models import User
from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed, record_created, record_deleted
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import write_transaction
from appliance.inventory.actions import site_deletion_refusals
from appliance.inventory.models import Site


def find_site(name: str) -> Site | None:
    """Return the site, or None for an empty name. Raises ApplianceError NOT_FOUND."""
    site = Site.objects.filter(name=name).first() if name else None
    if name and site is None:
        raise ApplianceError(
            Code.NOT_FOUND, f"Site {name} not found. List sites with: busbar site list"
        )
    return site


def require_free_name(name: str) -> None:
    if Site.objects.filter(name=name).exists():
        raise ApplianceError(
            Code.CONFLICT, f"A site named {name} already exists. Choose another name."
        )


@write_transaction
def create_site(*, values: Mapping[str, Any], actor: str) -> Site:
    require_free_name(values["name"])
    site = Site.objects.create(**values)
    emit_site_event(site, "site.created", f"Site {site.name} created.", actor)
    record_created(site)
    return site


@write_transaction
def update_site(*, site_id: UUID, values: Mapping[str, Any], actor: str) -> Site:
    """Change a site. `values` are the fields of a request.

    Requests that select the old name no longer match the nodes of the site.
    """
    site = Site.objects.get(pk=site_id)
    before = values_of(site)
    changed = {key: value for key, value in values.items() if value != getattr(site, key)}
    if not changed:
        record_changed(site, before)
        return site
    if "name" in changed:
        require_free_name(changed["name"])
        for node_id in site.nodes.values_list("pk", flat=True):
            change_log.record(Topic.NODE_CAPACITY, node_id)
    Site.objects.filter(pk=site_id).update(version=F("version") + 1, **changed)
    message = f"Site {site.name} changed: {', '.join(changed)}."
    emit_site_event(site, "site.changed", message, actor)
    site.refresh_from_db()
    record_changed(site, before)
    return site


@write_transaction
def delete_site(*, site_id: UUID, actor: User) -> None:
    """Delete a site. Raises ApplianceError IN_USE with its nodes as blockers."""
    site = Site.objects.get(pk=site_id)
    for refusal in site_deletion_refusals(actor, [site]):
        raise_refusal(refusal)
    emit_site_event(site, "site.deleted", f"Site {site.name} deleted.", actor.username)
    record_deleted(site)
    site.delete()


def emit_site_event(site: Site, kind: str, message: str, actor: str) -> None:
    emit(kind, path=site.path, object_id=site.pk, actor=actor, message=message)
