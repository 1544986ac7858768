"""REST views of pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from rest_framework import serializers

from appliance.accounts.authorization import require_at, require_privilege
from appliance.accounts.models import Project, User
from appliance.accounts.permissions import projects_with
from appliance.accounts.resources import Resource, Values
from appliance.activity.feed import GuardedNames, hub
from appliance.api.errors import Code
from appliance.api.fields import LabelsField, NameField
from appliance.api.filters import parse_labels, parse_text
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import ModelRequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.db.change_log import Audience
from appliance.pools import services
from appliance.pools.models import Pool

POLICIES = ("pack", "spread", "model_affinity", "exclusive")
"""Values of allocations.placement.Policy, which this layer cannot import; a test compares them."""
POLICY_LIST = serializers.ListField(
    child=serializers.ChoiceField(POLICIES),
    min_length=1,
    required=False,
    help_text="Placement policies. A later policy breaks the ties of the earlier ones.",
)
SETTINGS = (
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
)
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
    policies = POLICY_LIST
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
        fields = ("id", "name", *SETTINGS, "simulated", "version", "created_at")

    def get_fallbacks(self, pool: Pool) -> list[str]:
        names = self.context["pools"]
        return [names[f] for f in pool.fallbacks if f in names]

    def get_projects(self, pool: Pool) -> list[str]:
        names = self.context["projects"]
        return sorted(names[p] for p in pool.project_ids if p in names)


class PoolSettingsSerializer(ModelRequestSerializer[Pool]):
    labels = LabelsField(
        required=False, help_text="Labels by key. They select pools in lists and in `busbar apply`."
    )
    policies = POLICY_LIST
    fallbacks = serializers.ListField(
        child=NameField(max_length=100),
        required=False,
        max_length=16,
        help_text="Names of the pools to try after this one, in order.",
    )
    projects = serializers.ListField(
        child=NameField(max_length=100),
        required=False,
        max_length=256,
        help_text="Names of the projects that may use the pool; empty if all may.",
    )

    class Meta:
        model = Pool
        fields: tuple[str, ...] = SETTINGS


class PoolRequestSerializer(PoolSettingsSerializer):
    name = NameField(max_length=100)

    class Meta(PoolSettingsSerializer.Meta):
        fields = (*SETTINGS, "name")


POOLS = Resource(
    PoolSerializer,
    {"name": ("name", parse_text), "labels": ("labels", parse_labels)},
    CREATED | {"name": Order("name")},
    rows=Pool.objects.visible_to,
    kind=services.POOLS,
    represent=lambda user, found: (
        PoolSerializer(found, many=True, context=visible_names(user)).data
    ),
)


class PoolListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "pools"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    get = POOLS.lists("List the pools that the caller may view.")

    @POOLS.creates(PoolRequestSerializer)
    def post(self, user: User, values: Values) -> Pool:
        """Create a pool."""
        return services.create_pool(values=values, actor=user.username)


class PoolView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": services.UPDATE.privilege,
        "DELETE": services.DELETE.privilege,
    }
    error_codes: ClassVar[ErrorCodes] = {
        "DELETE": (Code.IN_USE,),
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    get = POOLS.shows("Return one pool.")

    @POOLS.changes(
        PoolSettingsSerializer,
        permit=lambda user, pool: require_at(user, services.MANAGE, pool.places()),
    )
    def patch(self, user: User, pool: Pool, values: Values) -> Pool:
        """Change the settings of a pool.

        `projects`, `fallbacks`, `admit_new_gpus` and `required_isolation` affect others, so they
        need the privilege on the whole appliance.
        """
        if not APPLIANCE_SETTINGS.isdisjoint(values):
            require_privilege(user, services.MANAGE)
        return services.update_pool(pool_id=pool.pk, values=values, actor=user.username)

    @POOLS.deletes()
    def delete(self, user: User, pool: Pool) -> None:
        """Delete a pool. Fails with `in_use` and a list of blockers while it is in use."""
        services.delete_pool(pool=pool, actor=user.username)


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


hub.register("pool", pool_rows)
