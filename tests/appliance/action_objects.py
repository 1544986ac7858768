"""Objects of the kinds with actions, apart from those of allocations, in the states that matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Model
from django.utils import timezone

from appliance.accounts.models import ApiToken, CustomRole, Project, RoleBinding, User
from appliance.accounts.services import token_create
from appliance.activity.models import Task, TaskState
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.allocations.models import Allocation
from appliance.fleet.ssh_enrolment import KIND as ENROLMENT
from appliance.inventory.models import Node, Site
from appliance.pools.models import Pool, Quota, Reservation
from appliance.signin.models import Passkey
from tests.appliance.conftest import Cast

REQUESTS: dict[tuple[str, str], tuple[str, str, Any]] = {
    ("alarm-definitions", "update"): ("PATCH", "", {"notes": "known"}),
    ("alarm-definitions", "delete"): ("DELETE", "", None),
    ("alarms", "acknowledge"): ("POST", "/acknowledge", {}),
    ("passkeys", "rename"): ("PATCH", "", {"name": "phone"}),
    ("passkeys", "delete"): ("DELETE", "", None),
    ("quotas", "update"): ("PATCH", "", {"weight": 2}),
    ("quotas", "delete"): ("DELETE", "", None),
    ("reservations", "delete"): ("DELETE", "", None),
    ("role-bindings", "delete"): ("DELETE", "", None),
    ("roles", "update"): ("PATCH", "", {"privileges": ["pools.view"]}),
    ("roles", "delete"): ("DELETE", "", None),
    ("sites", "update"): ("PATCH", "", {"notes": "dusty"}),
    ("sites", "rename"): ("PATCH", "", {"name": "another"}),
    ("sites", "delete"): ("DELETE", "", None),
    ("tasks", "cancel"): ("POST", "/cancel", None),
    ("tokens", "revoke"): ("DELETE", "", None),
}
"""Method, rest of the path and body of a valid request for each action."""


def create_objects(cast: Cast) -> list[tuple[str, Iterable[Model]]]:
    """Create the objects, among them a site with the node `busy`, and return all by kind."""
    sites(cast)
    quotas(cast)
    tokens_and_roles(cast)
    tasks(cast)
    alarms()
    for user in (cast.alice, cast.admin):
        Passkey.objects.create(user=user, name="laptop", credential_id=user.username)
    return [
        ("alarm-definitions", AlarmDefinition.objects.all()),
        ("alarms", Alarm.objects.all()),
        ("passkeys", Passkey.objects.all()),
        ("quotas", Quota.objects.all()),
        ("reservations", Reservation.objects.all()),
        ("role-bindings", RoleBinding.objects.all()),
        ("roles", CustomRole.objects.all()),
        ("sites", Site.objects.all()),
        ("tasks", Task.objects.all()),
        ("tokens", ApiToken.objects.filter(name="ci")),
    ]


def sites(cast: Cast) -> None:
    hall = Site.objects.create(name="hall")
    Site.objects.create(name="cellar")
    Node.objects.filter(name="busy").update(site=hall)
    RoleBinding.objects.create(user=cast.mara, role="operator", site=hall)


def quotas(cast: Cast) -> None:
    default = Project.objects.get(name="default")
    elsewhere = Project.objects.get(name="elsewhere")
    for kind, subject in (("project", default), ("project", elsewhere), ("user", cast.alice)):
        Quota.objects.create(subject_kind=kind, subject_id=subject.pk, quota_percent=100)
    Reservation.objects.create(
        name="exam",
        pool=Pool.objects.get(name="default"),
        project=default,
        gpu_count=1,
        starts_at="2099-01-01T00:00:00Z",
        ends_at="2099-01-02T00:00:00Z",
    )


def tokens_and_roles(cast: Cast) -> None:
    service = User.objects.get(username="service")
    for user in (cast.alice, cast.admin, cast.ada, service):
        token_create(user=user, name="ci")
    CustomRole.objects.create(name="reader", privileges=["pools.view"])
    CustomRole.objects.create(name="configurer", privileges=["settings.manage"])


def tasks(cast: Cast) -> None:
    """Create tasks of the appliance, beside those of the allocations."""
    running = {"kind": ENROLMENT, "path": "enrolments/x", "state": TaskState.RUNNING}
    for user in (cast.admin, cast.charlie, cast.mara):
        Task.objects.create(**running, initiator=user)
    Task.objects.create(**running | {"state": TaskState.FAILED}, initiator=cast.olga)
    Task.objects.create(**running | {"kind": "report"}, initiator=cast.alice)


def alarms() -> None:
    for name, values in (
        ("cordoned", {}),
        ("of the product", {"is_builtin": True}),
        ("maintained", {"enters_maintenance": True}),
    ):
        definition = AlarmDefinition.objects.create(
            name=name,
            severity="info",
            object_kind="node",
            condition="state",
            states=["cordoned"],
            **values,
        )
    for node in Node.objects.filter(name__in=("busy", "locked")):
        raise_alarm(definition, node, object_kind="node", node=node)
        raise_alarm(definition, node, object_kind="node", node=node, cleared_at=timezone.now())
    allocation = Allocation.objects.filter(project__name="elsewhere").earliest("pk")
    raise_alarm(definition, allocation, object_kind="allocation", project_id=allocation.project_id)


def raise_alarm(definition: AlarmDefinition, subject: Node | Allocation, **columns: Any) -> Alarm:
    return Alarm.objects.create(
        definition=definition,
        name=definition.name,
        severity="info",
        object_id=subject.pk,
        object_name=subject.name,
        path=subject.path,
        message="m",
        state="cleared" if "cleared_at" in columns else "active",
        **columns,
    )
