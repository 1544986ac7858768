"""REST views of sites."""

from __future__ import annotations

from typing import ClassVar

from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.api.errors import Code
from appliance.api.fields import NameField
from appliance.api.filters import parse_text
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import ModelRequestSerializer
from appliance.api.serialization import RowSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.inventory import actions, sites
from appliance.inventory.models import Site

FIELDS = ("name", "notes")


class SiteSerializer(RowSerializer[Site]):
    class Meta:
        model = Site
        fields = ("id", *FIELDS, "version", "created_at")


SITES = Resource(
    SiteSerializer,
    {"name": ("name", parse_text)},
    CREATED | {"name": Order("name")},
    rows=Site.objects.visible_to,
    kind=actions.SITES,
)


class SiteRequestSerializer(ModelRequestSerializer[Site]):
    name = NameField(max_length=100)

    class Meta:
        model = Site
        fields = FIELDS


class SiteListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view", "POST": "inventory.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "sites"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    get = SITES.lists("List sites.")

    @SITES.creates(SiteRequestSerializer)
    def post(self, user: User, values: Values) -> Site:
        """Create a site."""
        return sites.create_site(values=values, actor=user.username)


class SiteView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "inventory.view",
        "PATCH": actions.UPDATE_SITE.privilege,
        "DELETE": actions.DELETE_SITE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    get = SITES.shows("Return one site.")

    @SITES.changes(SiteRequestSerializer, permit=actions.UPDATE_SITE.require)
    def patch(self, user: User, site: Site, values: Values) -> Site:
        """Change the name or notes of a site.

        Requests that select the site by its old name no longer match its nodes. Another name
        needs the privilege on the whole appliance.
        """
        if "name" in values:
            actions.RENAME_SITE.require(user, site)
        return sites.update_site(site_id=site.pk, values=values, actor=user.username)

    @SITES.deletes(rows=lambda _: Site.objects.all())
    def delete(self, user: User, site: Site) -> None:
        """Delete a site. Fails with `in_use` and a list of blockers while it has nodes."""
        sites.delete_site(site_id=site.pk, actor=user)
