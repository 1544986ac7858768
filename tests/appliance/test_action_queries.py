"""The number of queries for the actions of many objects."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

import appliance.urls  # noqa: F401 - registers all kinds
from appliance.accounts import actions
from appliance.accounts.models import (
    CustomRole,
    Department,
    Group,
    Project,
    RoleBinding,
    User,
)
from appliance.accounts.privileges import VIEW
from appliance.accounts.services import token_create
from appliance.activity.models import Task, TaskState
from appliance.alarms.models import AlarmDefinition
from appliance.fleet.ssh_enrolment import KIND as ENROLMENT
from appliance.inventory.models import Gpu, Node, Site
from appliance.pools.models import Pool, Quota, Reservation
from appliance.signin.models import Passkey
from tests.appliance.action_objects import raise_alarm
from tests.appliance.conftest import Cast, body

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
LIMITED = sorted(VIEW | {"accounts.manage", "alarms.manage", "members.manage"})
"""Scopes of a token that may view all kinds, and is refused with the privileges that it lacks."""


def person(name: str) -> User:
    """Create a user with a role in a project of their own, which refusals name."""
    user = User.objects.create(username=name)
    project = Project.objects.create(name=f"of {name}")
    RoleBinding.objects.create(user=user, role="administrator", project=project)
    return user


def bound_group(name: str) -> Group:
    group = Group.objects.create(name=name)
    RoleBinding.objects.create(group=group, role="administrator")
    return group


def bound_role(name: str) -> CustomRole:
    role = CustomRole.objects.create(name=name, privileges=["settings.manage"])
    RoleBinding.objects.create(user=User.objects.create(username=name), role=name)
    return role


def site_with_node(name: str) -> Site:
    site = Site.objects.create(name=name)
    Node.objects.create(name=name, site=site)
    return site


def definition(name: str) -> AlarmDefinition:
    return AlarmDefinition.objects.create(
        name=name,
        severity="info",
        object_kind="node",
        condition="state",
        states=["cordoned"],
        is_builtin=True,
    )


def alarm(name: str) -> Model:
    node = Node.objects.create(name=name, site=Site.objects.create(name=name))
    return raise_alarm(definition(name), node, object_kind="node", node=node)


def reservation(name: str) -> Reservation:
    return Reservation.objects.create(
        name=name,
        pool=Pool.objects.get(name="default"),
        project=Project.objects.get(name="default"),
        gpu_count=1,
        starts_at="2099-01-01T00:00:00Z",
        ends_at="2099-01-02T00:00:00Z",
    )


def task(name: str) -> Task:
    initiator = User.objects.create(username=name)
    return Task.objects.create(kind=ENROLMENT, initiator=initiator, state=TaskState.RUNNING)


def passkey(name: str) -> Passkey:
    owner = User.objects.get(username="admin")
    return Passkey.objects.create(user=owner, name=name, credential_id=name)


def gpu(name: str) -> Gpu:
    node = Node.objects.create(name=name)
    return Gpu.objects.create(
        node=node, uuid=uuid.uuid4(), index=0, model="Test GPU", memory_bytes=1
    )


CREATORS: dict[str, Callable[[str], Model]] = {
    "alarm-definitions": definition,
    "alarms": alarm,
    "departments": lambda name: Department.objects.create(name=name),
    "gpus": gpu,
    "groups": bound_group,
    "nodes": lambda name: Node.objects.create(name=name, site=Site.objects.create(name=name)),
    "passkeys": passkey,
    "pools": lambda name: Pool.objects.create(name=name),
    "projects": lambda name: Project.objects.create(name=name),
    "quotas": lambda _: Quota.objects.create(subject_kind="user", subject_id=uuid.uuid4()),
    "reservations": reservation,
    "role-bindings": lambda name: person(name).role_bindings.get(),
    "roles": bound_role,
    "sites": site_with_node,
    "tasks": task,
    "tokens": lambda name: token_create(user=person(name), name="ci")[0],
    "users": person,
}
"""Functions that create an object of each kind but allocations."""


def count_queries(client: Any, objects: Sequence[str]) -> int:
    with CaptureQueriesContext(connection) as queries:
        answer = client.post("/api/v1/actions", {"objects": objects}, format="json")
    assert all(item["actions"] for item in body(answer)["items"])
    return len(queries)


@pytest.mark.parametrize("is_limited", [False, True])
@pytest.mark.parametrize("kind", [k for k in actions.kinds() if k != "allocations"])
def test_50_objects_take_as_many_queries_as_one(cast: Cast, kind: str, is_limited: bool) -> None:
    objects = [f"{kind}/{CREATORS[kind](f'n{number}').pk}" for number in range(50)]
    client, scopes = APIClient(), LIMITED if is_limited else []
    _, text = token_create(user=cast.admin, name="ci", scopes=scopes)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    count_queries(client, objects[:1])  # authenticates the token
    assert count_queries(client, objects) == count_queries(client, objects[:1])
