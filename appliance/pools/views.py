"""Pools."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.idempotency import idempotent
from appliance.pools import services
from appliance.pools.models import Pool
from appliance.rest import ApplianceView, CursorPage, caller, plain, refuse_unknown_parameters


class PoolSerializer(serializers.ModelSerializer[Pool]):
    class Meta:
        model = Pool
        fields = ("id", "name", "labels", "version", "created_at")
        read_only_fields = ("id", "labels", "version", "created_at")
        extra_kwargs: ClassVar[dict[str, Any]] = {"name": {"validators": []}}  # a clash is a conflict, which the service says


class PoolListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}

    @extend_schema(responses=PoolSerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        page = CursorPage()
        return page.get_paginated_response(PoolSerializer(page.paginate_queryset(Pool.objects.visible_to(caller(request)), request), many=True).data)

    @extend_schema(request=PoolSerializer, responses={201: PoolSerializer})
    def post(self, request: Request) -> Response:
        form = PoolSerializer(data=request.data)
        form.is_valid(raise_exception=True)

        def effect() -> tuple[int, dict[str, Any]]:
            pool = services.pool_create(name=form.validated_data["name"], actor=caller(request).username)
            return 201, plain(PoolSerializer(pool).data)

        return idempotent(request, effect)


class PoolView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view"}

    @extend_schema(responses=PoolSerializer)
    def get(self, request: Request, pool_id: UUID) -> Response:
        pool = get_object_or_404(Pool.objects.visible_to(caller(request)), pk=pool_id)
        return Response(PoolSerializer(pool).data, headers={"ETag": f'"{pool.version}"'})
