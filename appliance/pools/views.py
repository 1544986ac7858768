"""Pools, quotas and reservations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.models import Project
from appliance.activity.idempotency import idempotent
from appliance.fields import NameField
from appliance.pools import services
from appliance.pools.models import Pool, Quota, Reservation
from appliance.pools.subject_kind import SubjectKind
from appliance.rest import (
    ApplianceView,
    CursorPage,
    Filter,
    caller,
    check_version,
    filter_parameters,
    filtered,
    one_of,
    plain,
    refuse_unknown_parameters,
)

POLICIES = ("pack", "spread", "model_affinity", "exclusive")
"""Names of allocations.placement.Policy, which is above this floor; a test compares them."""
KINDS = [k.value for k in SubjectKind]


def pool_names() -> dict[str, str]:
    return {str(pk): name for pk, name in Pool.objects.values_list("pk", "name")}


def project_names() -> dict[str, str]:
    return {str(pk): name for pk, name in Project.objects.values_list("pk", "name")}


class PoolSerializer(serializers.ModelSerializer[Pool]):
    policies = serializers.ListField(
        child=serializers.ChoiceField(POLICIES),
        min_length=1,
        required=False,
        help_text="The next decides where the one before sees no difference.",
    )
    fallbacks = serializers.SerializerMethodField(
        help_text="Names of the pools that are tried after this one."
    )
    projects = serializers.SerializerMethodField(
        help_text="Names of those it is kept for; none: open to all."
    )

    class Meta:
        model = Pool
        fields = (
            "id",
            "name",
            "labels",
            "policies",
            "fallbacks",
            "max_lifetime_seconds",
            "max_idle_seconds",
            "network",
            "projects",
            "version",
            "created_at",
        )

    def get_fallbacks(self, pool: Pool) -> list[str]:
        names = self.context.get("names") or pool_names()
        return [names[f] for f in pool.fallbacks if f in names]

    def get_projects(self, pool: Pool) -> list[str]:
        if not pool.project_ids:
            return []
        names = self.context.get("projects") or project_names()
        return sorted(names[p] for p in pool.project_ids if p in names)


class PoolRulesSerializer(serializers.Serializer[dict[str, Any]]):
    policies = serializers.ListField(
        child=serializers.ChoiceField(POLICIES), min_length=1, required=False
    )
    fallbacks = serializers.ListField(
        child=NameField(max_length=100), required=False, max_length=16, help_text="Names, in order."
    )
    max_lifetime_seconds = serializers.IntegerField(
        min_value=0, max_value=366 * 86400, required=False, help_text="0: no end."
    )
    max_idle_seconds = serializers.IntegerField(
        min_value=0,
        max_value=366 * 86400,
        required=False,
        help_text="Without a launch or a copy. 0: no end.",
    )
    network = serializers.CharField(
        max_length=50,
        required=False,
        allow_blank=True,
        help_text="Whose addresses of a node are tried first.",
    )
    projects = serializers.ListField(
        child=NameField(max_length=100),
        required=False,
        max_length=256,
        help_text="Names of those it is kept for; none: open to all.",
    )


class PoolRequestSerializer(PoolRulesSerializer):
    name = NameField(max_length=100)


class PoolListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}

    @extend_schema(responses=PoolSerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        page = CursorPage()
        found = page.paginate_queryset(Pool.objects.visible_to(caller(request)), request)
        return page.get_paginated_response(
            PoolSerializer(
                found, many=True, context={"names": pool_names(), "projects": project_names()}
            ).data
        )

    @extend_schema(request=PoolRequestSerializer, responses={201: PoolSerializer})
    def post(self, request: Request) -> Response:
        form = PoolRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = dict(form.validated_data)
        name = wanted.pop("name")

        def effect() -> tuple[int, dict[str, Any]]:
            pool = services.pool_create(
                name=name, rules=services.PoolRules(**wanted), actor=caller(request).username
            )
            return 201, plain(PoolSerializer(pool).data)

        return idempotent(request, effect)


class PoolView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": "pools.manage",
        "DELETE": "pools.manage",
    }
    blockers: ClassVar[Callable[[Pool], list[dict[str, object]]]] = staticmethod(lambda pool: [])
    """What keeps a pool from being deleted: its GPUs and allocations, which the floors above know."""

    @extend_schema(responses=PoolSerializer)
    def get(self, request: Request, pool_id: UUID) -> Response:
        pool = get_object_or_404(Pool.objects.visible_to(caller(request)), pk=pool_id)
        return Response(PoolSerializer(pool).data, headers={"ETag": f'"{pool.version}"'})

    @extend_schema(request=PoolRulesSerializer, responses=PoolSerializer)
    def patch(self, request: Request, pool_id: UUID) -> Response:
        pool = get_object_or_404(Pool.objects.visible_to(caller(request)), pk=pool_id)
        check_version(pool, request)
        form = PoolRulesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        changed = services.pool_change(
            pool_id=pool.pk,
            rules=services.PoolRules(**form.validated_data),
            actor=caller(request).username,
        )
        return Response(PoolSerializer(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pool_id: UUID) -> Response:
        """Refused while GPUs are in it or allocations use it; those are named."""
        pool = get_object_or_404(Pool.objects.visible_to(caller(request)), pk=pool_id)
        check_version(pool, request)
        services.pool_delete(
            pool=pool, blockers=type(self).blockers(pool), actor=caller(request).username
        )
        return Response(status=204)


@extend_schema_field({"type": "number", "format": "double", "minimum": 0, "maximum": 100_000})
class GpusField(serializers.Field[int, float, float | None, Any]):
    """2.3 GPUs outside, 230 percent inside."""

    def to_representation(self, value: int) -> float:
        return value / 100

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float) or not 0 <= data <= 100_000:
            raise serializers.ValidationError("A number of GPUs from 0 to 100000, such as 2.3.")
        return round(data * 100)


class QuotaRulesSerializer(serializers.Serializer[dict[str, Any]]):
    quota_gpus = GpusField(
        source="quota_percent",
        required=False,
        allow_null=True,
        help_text="What it may always have; null: nothing is owed to it.",
    )
    limit_gpus = GpusField(
        source="limit_percent",
        required=False,
        allow_null=True,
        help_text="Never more; null: no limit.",
    )
    borrows = serializers.BooleanField(
        required=False, help_text="May go beyond its quota while others do not use theirs."
    )
    weight = serializers.FloatField(
        min_value=0.01,
        max_value=1000,
        required=False,
        help_text="Twice the weight, twice the share of what is over.",
    )


class QuotaRequestSerializer(QuotaRulesSerializer):
    subject_kind = serializers.ChoiceField(KINDS)
    subject = NameField(max_length=150, help_text="Name of the user, project or department.")


class QuotaSerializer(serializers.ModelSerializer[Quota]):
    subject_kind = serializers.ChoiceField(KINDS)
    subject = serializers.SerializerMethodField()
    quota_gpus = GpusField(source="quota_percent", allow_null=True)
    limit_gpus = GpusField(source="limit_percent", allow_null=True)

    class Meta:
        model = Quota
        fields = (
            "id",
            "subject_kind",
            "subject",
            "quota_gpus",
            "limit_gpus",
            "borrows",
            "weight",
            "version",
            "created_at",
        )

    def get_subject(self, quota: Quota) -> str | None:
        names: dict[UUID, str] = self.context.get("names") or services.subject_names([quota])
        return names.get(quota.subject_id)


QUOTA_FILTERS: dict[str, tuple[str, Filter]] = {"subject_kind": ("subject_kind", one_of(*KINDS))}


class QuotaListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}

    @extend_schema(
        parameters=filter_parameters(QUOTA_FILTERS), responses=QuotaSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        rows = filtered(request, Quota.objects.visible_to(caller(request)), QUOTA_FILTERS)
        page = CursorPage()
        found = page.paginate_queryset(rows, request)
        return page.get_paginated_response(
            QuotaSerializer(found, many=True, context={"names": services.subject_names(found)}).data
        )

    @extend_schema(request=QuotaRequestSerializer, responses={201: QuotaSerializer})
    def post(self, request: Request) -> Response:
        form = QuotaRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = dict(form.validated_data)
        kind, subject = SubjectKind(wanted.pop("subject_kind")), wanted.pop("subject")

        def effect() -> tuple[int, dict[str, Any]]:
            return 201, plain(
                QuotaSerializer(
                    services.quota_create(
                        kind=kind, subject=subject, actor=caller(request).username, **wanted
                    )
                ).data
            )

        return idempotent(request, effect)


class QuotaView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": "pools.manage",
        "DELETE": "pools.manage",
    }

    @extend_schema(responses=QuotaSerializer)
    def get(self, request: Request, quota_id: UUID) -> Response:
        quota = get_object_or_404(Quota.objects.visible_to(caller(request)), pk=quota_id)
        return Response(QuotaSerializer(quota).data, headers={"ETag": f'"{quota.version}"'})

    @extend_schema(request=QuotaRulesSerializer, responses=QuotaSerializer)
    def patch(self, request: Request, quota_id: UUID) -> Response:
        quota = get_object_or_404(Quota.objects.visible_to(caller(request)), pk=quota_id)
        check_version(quota, request)
        form = QuotaRulesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(
            QuotaSerializer(
                services.quota_change(
                    quota_id=quota.pk, actor=caller(request).username, **form.validated_data
                )
            ).data
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, quota_id: UUID) -> Response:
        quota = get_object_or_404(Quota.objects.visible_to(caller(request)), pk=quota_id)
        check_version(quota, request)
        services.quota_delete(quota_id=quota.pk, actor=caller(request).username)
        return Response(status=204)


class ReservationSerializer(serializers.ModelSerializer[Reservation]):
    pool = serializers.CharField(source="pool.name", read_only=True)
    project = serializers.CharField(source="project.name", read_only=True)

    class Meta:
        model = Reservation
        fields = (
            "id",
            "name",
            "pool",
            "project",
            "gpu_count",
            "percent",
            "starts_at",
            "ends_at",
            "version",
            "created_at",
        )


class ReservationRequestSerializer(serializers.Serializer[dict[str, Any]]):
    name = NameField(max_length=100)
    pool = NameField(max_length=100)
    project = NameField(max_length=100)
    gpu_count = serializers.IntegerField(min_value=1, max_value=1024)
    percent = serializers.IntegerField(min_value=1, max_value=100, required=False, default=100)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class ReservationListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}

    @extend_schema(responses=ReservationSerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        page = CursorPage()
        rows = Reservation.objects.visible_to(caller(request)).select_related("pool", "project")
        return page.get_paginated_response(
            ReservationSerializer(page.paginate_queryset(rows, request), many=True).data
        )

    @extend_schema(request=ReservationRequestSerializer, responses={201: ReservationSerializer})
    def post(self, request: Request) -> Response:
        form = ReservationRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)

        def effect() -> tuple[int, dict[str, Any]]:
            return 201, plain(
                ReservationSerializer(
                    services.reservation_create(
                        actor=caller(request).username, **form.validated_data
                    )
                ).data
            )

        return idempotent(request, effect)


class ReservationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "DELETE": "pools.manage"}

    @extend_schema(responses=ReservationSerializer)
    def get(self, request: Request, reservation_id: UUID) -> Response:
        return Response(
            ReservationSerializer(
                get_object_or_404(
                    Reservation.objects.visible_to(caller(request)), pk=reservation_id
                )
            ).data
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, reservation_id: UUID) -> Response:
        row = get_object_or_404(Reservation.objects.visible_to(caller(request)), pk=reservation_id)
        services.reservation_delete(reservation_id=row.pk, actor=caller(request).username)
        return Response(status=204)
