"""REST views of pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_at, require_privilege
from appliance.accounts.idempotency import idempotent
from appliance.accounts.models import Project, User
from appliance.accounts.permissions import projects_with
from appliance.accounts.places import Place, register_inventory, register_place
from appliance.activity.feed import GuardedNames, hub
from appliance.api.errors import Code
from appliance.api.fields import LabelsField, LineField, NameField
from appliance.api.filters import parse_labels, parse_text
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import to_json_types
from appliance.api.views import ApplianceView, ErrorCodes, check_version
from appliance.db.change_log import Audience
from appliance.pools import services
from appliance.pools.isolation import IsolationLevel
from appliance.pools.models import Pool

POLICIES = ("pack", "spread", "model_affinity", "exclusive")
"""Values of allocations.placement.Policy, which this layer cannot import; a test compares them."""
MAX_SECONDS = 366 * 86400
APPLIANCE_SETTINGS = frozenset({"admit_new_gpus", "fallbacks", "projects", "required_isolation"})
"""Settings that a role binding in the pool does not permit to change."""


def visible_names(user: User) -> dict[str, dict[str, str]]:
    """Return the names of the pools and projects that the user may view, by id."""
    projects = projects_with(user, "pools.view")
    rows = Project.objects.all() if projects is None else Project.objects.filter(pk__in=projects)
    return {
        "pools": {str(pk): name for pk, name in named(Pool.objects.visible_to(user))},
        "projects": {str(pk): name for pk, name in named(rows)},
    }


def named(rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    return rows.values_list("pk", "name")


# The context has the names that the caller may view (`visible_names`).
class PoolSerializer(serializers.ModelSerializer[Pool]):
    policies = serializers.ListField(
        child=serializers.ChoiceField(POLICIES),
        min_length=1,
        required=False,
        help_text="Placement policies. A later policy breaks the ties of the earlier ones.",
    )
    fallbacks = serializers.SerializerMethodField(
        help_text="Names of the pools to try after this one, in order."
    )
    projects = serializers.SerializerMethodField(
        help_text="Names of the projects that may use the pool; empty if all may."
    )

    simulated = serializers.BooleanField(
        read_only=True, help_text="Its GPUs are of simulated nodes. No program can run on them."
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
            "max_late_seconds",
            "network",
            "admit_new_gpus",
            "required_isolation",
            "projects",
            "simulated",
            "version",
            "created_at",
        )

    def get_fallbacks(self, pool: Pool) -> list[str]:
        names = self.context["pools"]
        return [names[f] for f in pool.fallbacks if f in names]

    def get_projects(self, pool: Pool) -> list[str]:
        names = self.context["projects"]
        return sorted(names[p] for p in pool.project_ids if p in names)


class PoolSettingsSerializer(RequestSerializer[dict[str, Any]]):
    labels = LabelsField(
        required=False, help_text="Labels by key. They select pools in lists and in `busbar apply`."
    )
    policies = serializers.ListField(
        child=serializers.ChoiceField(POLICIES),
        min_length=1,
        required=False,
        help_text="Placement policies. A later policy breaks the ties of the earlier ones.",
    )
    fallbacks = serializers.ListField(
        child=NameField(max_length=100),
        required=False,
        max_length=16,
        help_text="Names of the pools to try after this one, in order.",
    )
    max_lifetime_seconds = serializers.IntegerField(
        min_value=0,
        max_value=MAX_SECONDS,
        required=False,
        help_text="Time from activation of an allocation to its eviction; 0 for unlimited.",
    )
    max_idle_seconds = serializers.IntegerField(
        min_value=0,
        max_value=MAX_SECONDS,
        required=False,
        help_text="Time without a launch or copy until eviction; 0 for unlimited.",
    )
    max_late_seconds = serializers.IntegerField(
        min_value=0,
        max_value=MAX_SECONDS,
        required=False,
        help_text="Time for which work of a session may run beyond its turn while others wait for"
        " the GPU, until the session ends; 0 for unlimited.",
    )
    network = LineField(
        max_length=50,
        required=False,
        allow_blank=True,
        help_text="Clients try the endpoints of this network first.",
    )
    admit_new_gpus = serializers.BooleanField(
        required=False,
        help_text="GPUs that enrolled nodes report later join the pool without an operator."
        " Has an effect in the default pool, which new GPUs join.",
    )
    required_isolation = serializers.ChoiceField(
        IsolationLevel.choices,
        required=False,
        help_text="Isolation of sessions that nodes need for new allocations. `process`: a fixed"
        " set of system calls; `namespaces`: also files, processes and a network of their own;"
        " `full`: also a user of their own and limits of memory, threads and processor time.",
    )
    projects = serializers.ListField(
        child=NameField(max_length=100),
        required=False,
        max_length=256,
        help_text="Names of the projects that may use the pool; empty if all may.",
    )


class PoolRequestSerializer(PoolSettingsSerializer):
    name = NameField(max_length=100)


POOL_LIST = Listing(
    PoolSerializer,
    {"name": ("name", parse_text), "labels": ("labels", parse_labels)},
    CREATED | {"name": Order("name")},
)


class PoolListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "pools"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=POOL_LIST.parameters, responses=PoolSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the pools that the caller may view."""
        names = visible_names(request_user(request))
        return POOL_LIST.respond(
            request,
            Pool.objects.visible_to(request_user(request)),
            lambda found: PoolSerializer(found, many=True, context=names).data,
        )

    @extend_schema(request=PoolRequestSerializer, responses={201: PoolSerializer})
    def post(self, request: Request) -> Response:
        """Create a pool."""
        form = PoolRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = dict(form.validated_data)
        name = values.pop("name")

        def effect() -> tuple[int, dict[str, Any]]:
            pool = services.create_pool(
                name=name,
                settings=services.PoolSettings(**values),
                actor=request_user(request).username,
            )
            names = visible_names(request_user(request))
            return 201, to_json_types(PoolSerializer(pool, context=names).data)

        return idempotent(request, effect)


class PoolView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": services.UPDATE.privilege,
        "DELETE": services.DELETE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    @extend_schema(responses=detail_of(PoolSerializer))
    def get(self, request: Request, pool_id: UUID) -> Response:
        """Return one pool."""
        pool = get_object_or_404(Pool.objects.visible_to(request_user(request)), pk=pool_id)
        names = visible_names(request_user(request))
        actions = services.POOLS.actions_of(request_user(request), pool)
        content = {**PoolSerializer(pool, context=names).data, "actions": actions}
        return Response(content, headers={"ETag": f'"{pool.version}"'})

    @extend_schema(request=PoolSettingsSerializer, responses=PoolSerializer)
    def patch(self, request: Request, pool_id: UUID) -> Response:
        """Change the settings of a pool.

        `projects`, `fallbacks`, `admit_new_gpus` and `required_isolation` affect others, so they
        need the privilege on the whole appliance.
        """
        pool = get_object_or_404(Pool.objects.visible_to(request_user(request)), pk=pool_id)
        require_at(request_user(request), services.MANAGE, pool.places())
        check_version(pool, request)
        form = PoolSettingsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        if not APPLIANCE_SETTINGS.isdisjoint(form.validated_data):
            require_privilege(request_user(request), services.MANAGE)
        changed = services.update_pool(
            pool_id=pool.pk,
            settings=services.PoolSettings(**form.validated_data),
            actor=request_user(request).username,
        )
        names = visible_names(request_user(request))
        return Response(PoolSerializer(changed, context=names).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pool_id: UUID) -> Response:
        """Delete a pool. Fails with `in_use` and a list of blockers while it is in use."""
        pool = get_object_or_404(Pool.objects.visible_to(request_user(request)), pk=pool_id)
        check_version(pool, request)
        services.delete_pool(pool=pool, actor=request_user(request).username)
        return Response(status=204)


def pool_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of pools for the feed, with the names that each of its clients may view."""
    pools = {str(pool.pk): pool for pool in Pool.objects.all()}
    projects = {str(pk): name for pk, name in named(Project.objects.all())}
    for pool in (pools[i] for i in map(str, ids) if i in pools):
        fallbacks = [pools[i] for i in pool.fallbacks if i in pools]
        allowed = sorted((projects[i], UUID(i)) for i in pool.project_ids if i in projects)
        row = PoolSerializer(pool, context={"pools": {}, "projects": {}}).data
        names = {
            "fallbacks": GuardedNames((p.name, p.audience) for p in fallbacks),
            "projects": GuardedNames(allowed),
        }
        yield pool.pk, "pools.view", pool.audience, {**row, **names}


def place_of_pool(viewer: User, pool_id: UUID) -> Place:
    pool = get_object_or_404(Pool.objects.visible_to(viewer), pk=pool_id)
    return Place(inventory=pool.places())


hub.register("pool", pool_rows)
register_place("pools", place_of_pool)
register_inventory("pool", lambda name: Pool.objects.filter(name=name).first())
