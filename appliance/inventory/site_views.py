"""REST views of sites."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import User
from appliance.accounts.places import Place, register_inventory, register_place
from appliance.api.errors import Code
from appliance.api.fields import NameField
from appliance.api.filters import parse_text
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes, check_version
from appliance.inventory import actions, sites
from appliance.inventory.models import MAX_NOTES, Site, SiteQuerySet


class SiteSerializer(RowSerializer[Site]):
    class Meta:
        model = Site
        fields = ("id", "name", "notes", "version", "created_at")


SITES = Listing(SiteSerializer, {"name": ("name", parse_text)}, CREATED | {"name": Order("name")})


class SiteRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100)
    notes = serializers.CharField(
        max_length=MAX_NOTES, required=False, default="", allow_blank=True
    )


class SiteChangeSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100, required=False)
    notes = serializers.CharField(max_length=MAX_NOTES, required=False, allow_blank=True)


def visible_sites(request: Request) -> SiteQuerySet:
    return Site.objects.visible_to(request_user(request))


class SiteListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view", "POST": "inventory.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "sites"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=SITES.parameters, responses=SiteSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List sites."""
        return SITES.respond(request, visible_sites(request))

    @extend_schema(request=SiteRequestSerializer, responses={201: SiteSerializer})
    def post(self, request: Request) -> Response:
        """Create a site."""
        form = SiteRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = form.validated_data | {"actor": request_user(request).username}
        return create_once(request, lambda: serialize(SiteSerializer, sites.create_site(**values)))


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

    @extend_schema(responses=detail_of(SiteSerializer))
    def get(self, request: Request, site_id: UUID) -> Response:
        """Return one site."""
        site = get_object_or_404(visible_sites(request), pk=site_id)
        allowed = actions.SITES.actions_of(request_user(request), site)
        content = serialize(SiteSerializer, site) | {"actions": allowed}
        return Response(content, headers={"ETag": f'"{site.version}"'})

    @extend_schema(request=SiteChangeSerializer, responses=SiteSerializer)
    def patch(self, request: Request, site_id: UUID) -> Response:
        """Change the name or notes of a site.

        Requests that select the site by its old name no longer match its nodes. Another name
        needs the privilege on the whole appliance.
        """
        current = get_object_or_404(visible_sites(request), pk=site_id)
        actions.UPDATE_SITE.require(request_user(request), current)
        check_version(current, request)
        form = SiteChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        if "name" in form.validated_data:
            actions.RENAME_SITE.require(request_user(request), current)
        actor = request_user(request).username
        site = sites.update_site(site_id=site_id, **form.validated_data, actor=actor)
        return Response(serialize(SiteSerializer, site))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, site_id: UUID) -> Response:
        """Delete a site. Fails with `in_use` and a list of blockers while it has nodes."""
        check_version(get_object_or_404(Site, pk=site_id), request)
        sites.delete_site(site_id=site_id, actor=request_user(request))
        return Response(status=204)


def place_of_site(viewer: User, site_id: UUID) -> Place:
    return Place(inventory=get_object_or_404(Site.objects.visible_to(viewer), pk=site_id).places())


register_place("sites", place_of_site)
register_inventory("site", lambda name: Site.objects.filter(name=name).first())
