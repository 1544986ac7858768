"""REST views of sites."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.api.errors import Code
from appliance.api.fields import NameField
from appliance.api.filters import parse_text
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.inventory import actions, sites
from appliance.inventory.models import MAX_NOTES, Site


class SiteSerializer(RowSerializer[Site]):
    class Meta:
        model = Site
        fields = ("id", "name", "notes", "version", "created_at")


SITES = Resource(
    SiteSerializer,
    {"name": ("name", parse_text)},
    CREATED | {"name": Order("name")},
    rows=Site.objects.visible_to,
    kind=actions.SITES,
)


class SiteRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100)
    notes = serializers.CharField(
        max_length=MAX_NOTES, required=False, default="", allow_blank=True
    )


class SiteChangeSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100, required=False)
    notes = serializers.CharField(max_length=MAX_NOTES, required=False, allow_blank=True)


class SiteListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view", "POST": "inventory.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "sites"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    get = SITES.lists("List sites.")

    @SITES.creates(SiteRequestSerializer)
    def post(self, user: User, values: Values) -> Site:
        """Create a site."""
        return sites.create_site(**values, actor=user.username)


class SiteView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "inventory.view",
        "PATCH": actions.UPDATE_SITE.privilege,
        "DELETE": actions.DELETE_SITE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    get = SITES.shows("Return one site.")

    @SITES.changes(SiteChangeSerializer, permit=actions.UPDATE_SITE.require)
    def patch(self, user: User, site: Site, values: Values) -> Site:
        """Change the name or notes of a site.

        Requests that select the site by its old name no longer match its nodes. Another name
        needs the privilege on the whole appliance.
        """
        if "name" in values:
            actions.RENAME_SITE.require(user, site)
        return sites.update_site(site_id=site.pk, **values, actor=user.username)

    @SITES.deletes(rows=lambda _: Site.objects.all())
    def delete(self, user: User, site: Site) -> None:
        """Delete a site. Fails with `in_use` and a list of blockers while it has nodes."""
        sites.delete_site(site_id=site.pk, actor=user)
