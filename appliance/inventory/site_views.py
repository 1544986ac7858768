"""/api/v1/sites."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.fields import NameField
from appliance.inventory import sites
from appliance.inventory.models import MAX_NOTES, Site
from appliance.rest import (
    ApplianceView,
    CursorPage,
    Filter,
    caller,
    check_version,
    filter_parameters,
    filtered,
    shown,
    text,
)


class SiteSerializer(serializers.ModelSerializer[Site]):
    class Meta:
        model = Site
        fields = ("id", "name", "notes", "version", "created_at")


class SiteRequestSerializer(serializers.Serializer[dict[str, Any]]):
    name = NameField(max_length=100)
    notes = serializers.CharField(
        max_length=MAX_NOTES, required=False, default="", allow_blank=True
    )


class SiteChangeSerializer(serializers.Serializer[dict[str, Any]]):
    name = NameField(max_length=100, required=False)
    notes = serializers.CharField(max_length=MAX_NOTES, required=False, allow_blank=True)


SITE_FILTERS: dict[str, tuple[str, Filter]] = {"name": ("name", text)}


class SiteListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view", "POST": "inventory.manage"}

    @extend_schema(parameters=filter_parameters(SITE_FILTERS), responses=SiteSerializer(many=True))
    def get(self, request: Request) -> Response:
        page = CursorPage()
        found = page.paginate_queryset(filtered(request, Site.objects.all(), SITE_FILTERS), request)
        return page.get_paginated_response([shown(SiteSerializer, site) for site in found])

    @extend_schema(request=SiteRequestSerializer, responses={201: SiteSerializer})
    def post(self, request: Request) -> Response:
        form = SiteRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(
            shown(
                SiteSerializer,
                sites.site_create(**form.validated_data, actor=caller(request).username),
            ),
            status=201,
        )


class SiteView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "inventory.view",
        "PATCH": "inventory.manage",
        "DELETE": "inventory.manage",
    }

    @extend_schema(responses=SiteSerializer)
    def get(self, request: Request, site_id: UUID) -> Response:
        site = get_object_or_404(Site, pk=site_id)
        return Response(shown(SiteSerializer, site), headers={"ETag": f'"{site.version}"'})

    @extend_schema(request=SiteChangeSerializer, responses=SiteSerializer)
    def patch(self, request: Request, site_id: UUID) -> Response:
        check_version(get_object_or_404(Site, pk=site_id), request)
        form = SiteChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(
            shown(
                SiteSerializer,
                sites.site_change(
                    site_id=site_id, **form.validated_data, actor=caller(request).username
                ),
            )
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, site_id: UUID) -> Response:
        """Refused with the blockers while nodes stand there."""
        check_version(get_object_or_404(Site, pk=site_id), request)
        sites.site_delete(site_id=site_id, actor=caller(request).username)
        return Response(status=204)
