"""Access matrix: the status of every operation for every role, as listed in `access.txt`.

Each operation is requested for an existing object and for an absent one.
"""

from __future__ import annotations

import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from django.conf import settings
from django.db import transaction
from django.urls import URLPattern, get_resolver
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from appliance.accounts import services
from appliance.accounts.models import (
    CustomRole,
    Department,
    Group,
    GroupMember,
    Project,
    RoleBinding,
    User,
)
from appliance.accounts.permissions import can_somewhere, inventory_places
from appliance.accounts.privileges import PRIVILEGES
from appliance.activity.models import Task
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.allocations.index import index
from appliance.allocations.models import Partition, Session, SessionState
from appliance.api.views import ApplianceView
from appliance.audit.models import AuditRecord
from appliance.fleet.models import SshHostKey
from appliance.inventory.models import Gpu, Node, Site
from appliance.pools.models import Pool, Quota, Reservation
from appliance.signin import device_logins
from appliance.signin.models import Passkey
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
MEMBERS = ("alice", "bob", "charlie", "oscar", "ada", "viola", "vera", "olga", "nina", "mara")
AT_PLACES = ("dana", "sita", "gina", "petra")
"""Users whose role holds at a parent or child of the objects (`bind_at_places`)."""
USERS = (*MEMBERS, *AT_PLACES, "admin", None)
FOREIGNERS = ("charlie", "oscar", "ada", "nina", "mara", "sita", "gina", "petra")
"""Their roles hold in another project than that of alice, or in the inventory only."""
PRIVATE = "private-to-alice"
"""Part of the texts that only members of alice's project may read."""
ALL_PRIVILEGES = set().union(*PRIVILEGES.values()) | {"public"}


@dataclass(frozen=True)
class Row:
    """One operation of access.txt."""

    method: str
    path: str
    statuses: tuple[int, ...]
    """Expected status for each user, in the order of USERS."""
    tests_absent: bool
    """Whether the operation is also requested for an absent object."""
    request_body: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def read_rows() -> Iterator[Row]:
    for line in (Path(__file__).parent / "access.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            method, path, *rest = line.split(None, 2 + len(USERS))
            statuses = tuple(map(int, rest[: len(USERS)]))
            last = rest[len(USERS)] if len(rest) > len(USERS) else ""
            content = last.removeprefix("=").strip()
            request_body = json.loads(content) if content else None
            yield Row(method, path, statuses, not last.startswith("="), request_body)


TABLE = list(read_rows())


def views() -> Iterator[tuple[str, type[ApplianceView]]]:
    """Yield path, with {name} for each id, and view of every route of the API."""
    for pattern in get_resolver().url_patterns:
        assert isinstance(pattern, URLPattern)
        if (path := str(pattern.pattern)).startswith("api/v1/"):
            yield (
                re.sub(r"<\w+:(\w+)>", r"{\1}", path.removeprefix("api/v1/")),
                cast(Any, pattern.callback).view_class,
            )


def view_of(row: Row) -> type[ApplianceView]:
    """Return the view of an operation. Ids may have other names than in the route."""
    for path, view in views():
        if without_names(path) == without_names(row.path):
            return view
    raise AssertionError(f"{row}: no such operation")


def privilege_of(row: Row) -> str:
    return view_of(row).privileges[row.method]


def test_every_view_declares_a_known_privilege_for_each_method() -> None:
    for path, view in views():
        assert issubclass(view, ApplianceView), f"{path} bypasses the permission check"
        methods = {m.upper() for m in ("get", "post", "put", "patch", "delete") if hasattr(view, m)}
        assert methods == set(view.privileges), (
            f"{path}: methods {methods}, privileges {set(view.privileges)}"
        )
        assert set(view.privileges.values()) <= ALL_PRIVILEGES, path


def without_names(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def documented_operations() -> list[tuple[str, str]]:
    """Return method and path of each operation of the OpenAPI document."""
    generator = cast(Any, SchemaGenerator)()
    paths: dict[str, dict[str, Any]] = generator.get_schema(public=True)["paths"]
    return sorted(
        (method.upper(), without_names(path.removeprefix("/api/v1/")))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if not operation.get("x-websocket")  # no view: it authenticates in its first message
    )


def test_every_operation_of_the_openapi_document_has_one_row() -> None:
    listed = sorted((r.method, without_names(r.path)) for r in TABLE)
    missing, unknown = set(documented_operations()) - set(listed), set(listed)
    unknown -= set(documented_operations())
    assert listed == documented_operations(), (
        f"missing rows: {missing}; unknown operations: {unknown}"
    )


def test_openapi_document_lists_every_operation() -> None:
    served = {(method, without_names(path)) for path, view in views() for method in view.privileges}
    assert served == set(documented_operations())


@pytest.fixture(autouse=True)
def allow_ssh_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the request of `nodes/enrol-ssh` reach a closed port of this machine."""
    networks = (ipaddress.ip_network("127.0.0.0/8"),)
    monkeypatch.setattr(settings.ENVIRONMENT, "ssh_networks", networks)


def create_object(kind: str, cast: Cast, client_of: Clients, node: Node) -> object:
    """Create an object of alice's project or of the appliance, and return its id."""
    alice = client_of(cast.alice)
    request = {"percent": 5, "name": PRIVATE}
    allocation = body(alice.post("/api/v1/allocations", request, format="json"))["id"]
    applied(node)
    project, pool = Project.objects.get(name="default"), Pool.objects.get(name="default")
    creators: dict[str, Callable[[], object]] = {
        "allocation_id": lambda: allocation,
        "node_id": lambda: node.pk,
        "gpu_id": lambda: Gpu.objects.get().pk,
        "site_id": lambda: Site.objects.get_or_create(name="s")[0].pk,
        "pool_id": lambda: pool.pk,
        "project_id": lambda: project.pk,
        "partition_id": lambda: Partition.objects.get(allocation_id=allocation).pk,
        "task_id": lambda: create_task(alice).pk,
        "python": lambda: "2.7",
        "quota_id": lambda: create_quota(project).pk,
        "reservation_id": lambda: create_reservation(pool, project).pk,
        "session_id": lambda: create_session(allocation, node).pk,
        "key_id": lambda: create_host_key().pk,
        "kind": lambda: "ca",
        "department_id": lambda: Department.objects.get_or_create(name="science")[0].pk,
        "user_id": lambda: User.objects.get_or_create(username="dora")[0].pk,
        "group_id": lambda: Group.objects.get_or_create(name="students")[0].pk,
        "passkey_id": lambda: create_passkey(cast.alice).pk,
        "member_id": lambda: create_member().pk,
        "token_id": lambda: services.token_create(user=cast.alice, name="ci")[0].pk,
        "role_id": lambda: CustomRole.objects.get_or_create(name="reader")[0].pk,
        "code": lambda: device_logins.begin(client="x", address="127.0.0.1")[0].code,
        "record_id": lambda: AuditRecord.objects.create(actor="alice", action="a").pk,
        "alarm_id": lambda: create_alarm(node).pk,
        "definition_id": lambda: create_definition().pk,
        "binding_id": lambda: RoleBinding.objects.get(user=cast.alice).pk,
    }
    return creators[kind]()


def create_task(client: Any) -> Task:
    """Create an allocation that waits, and return its task."""
    request = {"gpu_count": 16, "name": PRIVATE, "allow_pending": True}
    waiting = body(client.post("/api/v1/allocations", request, format="json"))
    return Task.objects.get(path__endswith=waiting["id"])


def create_definition() -> AlarmDefinition:
    return AlarmDefinition.objects.get_or_create(
        name="d", severity="info", object_kind="node", condition="state", states=["cordoned"]
    )[0]


def create_alarm(node: Node) -> Alarm:
    return Alarm.objects.get_or_create(
        definition=create_definition(),
        name="d",
        severity="info",
        object_kind="node",
        object_id=node.pk,
        object_name=node.name,
        path=node.path,
        node=node,
        message="m",
    )[0]


def create_member() -> GroupMember:
    group = Group.objects.get_or_create(name="students")[0]
    user = User.objects.get_or_create(username="dora")[0]
    return GroupMember.objects.get_or_create(group=group, user=user)[0]


def create_passkey(user: User) -> Passkey:
    return Passkey.objects.get_or_create(user=user, name="laptop", credential_id="x")[0]


def create_quota(project: Project) -> Quota:
    return Quota.objects.update_or_create(
        subject_kind="project", subject_id=project.pk, defaults={"quota_percent": 100}
    )[0]


def create_reservation(pool: Pool, project: Project) -> Reservation:
    now = timezone.now()
    return Reservation.objects.create(
        name="r",
        pool=pool,
        project=project,
        gpu_count=1,
        starts_at=now,
        ends_at=now + timedelta(hours=1),
    )


def create_session(allocation_id: str, node: Node) -> Session:
    return Session.objects.create(
        id=uuid.uuid4(),
        allocation_id=allocation_id,
        node=node,
        client_pid=1,
        pid=1,
        client_address="::1",
        program=PRIVATE,
        opened_at=timezone.now(),
        state=SessionState.RUNNING,
    )


def create_host_key() -> SshHostKey:
    return SshHostKey.objects.update_or_create(
        address="h",
        port=22,
        defaults={"key_type": "k", "sha256": "s", "confirmed_by": "olga"},
    )[0]


def check(
    row: Row, client: Any, values: dict[str, object], expected: int, user: str | None
) -> None:
    """Send the request and check its status and the form of an error."""
    content = (
        json.dumps(row.request_body).replace("USERNAME", f"{user}")
        if row.request_body is not None
        else ""
    )
    response = client.generic(
        row.method, "/api/v1/" + row.path.format(**values), content, "application/json"
    )
    assert response.status_code == expected, (
        f"{user}: status {response.status_code}, expected {expected}: {response.content[:300]!r}"
    )
    if expected >= 400:
        assert response["Content-Type"] == "application/problem+json" and body(response)["detail"]


def has_privilege(username: str, row: Row) -> bool:
    privilege, user = privilege_of(row), User.objects.get(username=username)
    in_inventory = row.method in view_of(row).inventory_methods
    return (
        privilege in ("account.self", "public")
        or can_somewhere(user, privilege)
        or (in_inventory and bool(inventory_places(user, privilege)))
    )


def bind_at_places(cast: Cast, node: Node) -> dict[str, User]:
    """Give roles at parents and children of the objects, and return all users by name.

    nina is an operator of the node, mara of another one, sita of the node's site, gina of its GPU
    and petra of its pool. dana is an administrator of the department of alice's project.
    """
    site, faculty = Site.objects.create(name="s"), Department.objects.create(name="faculty")
    Node.objects.filter(pk=node.pk).update(site=site)
    Project.objects.filter(name="default").update(department=faculty)
    people = vars(cast) | {name: User.objects.create(username=name) for name in AT_PLACES}
    places: dict[str, dict[str, Any]] = {
        "nina": {"role": "operator", "node": node},
        "mara": {"role": "operator", "node": Node.objects.create(name="other")},
        "sita": {"role": "operator", "site": site},
        "gina": {"role": "operator", "gpu": Gpu.objects.get()},
        "petra": {"role": "operator", "pool": Pool.objects.get(name="default")},
        "dana": {"role": "administrator", "department": faculty},
    }
    for name, binding in places.items():
        RoleBinding.objects.create(user=people[name], **binding)
    return people


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_status_for_every_role(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], row: Row
) -> None:
    node = add_node()
    people = bind_at_places(cast, node)
    names = re.findall(r"\{(\w+)\}", row.path)
    objects = {name: create_object(name, cast, client_of, node) for name in names}
    for user, expected in zip(USERS, row.statuses, strict=True):
        with transaction.atomic():
            client = client_of(people[user] if user else None)
            check(row, client, objects, expected, user)
            if row.tests_absent and "python" not in names:
                check(
                    row,
                    client,
                    dict.fromkeys(names, uuid.uuid4()),
                    401 if user is None else 404 if has_privilege(user, row) else 403,
                    f"{user}, absent object",
                )
            transaction.set_rollback(True)  # the next user starts from the same rows
        index.reset()


READS = [row for row in TABLE if row.method == "GET" and row.path != "watch"]
OBJECTS = ("task_id", "session_id", "quota_id", "reservation_id", "partition_id")


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("user", ["bob", *FOREIGNERS])
def test_reads_show_private_texts_to_members_of_the_project_only(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], user: str
) -> None:
    node = add_node()
    people = bind_at_places(cast, node)
    names = {name for row in READS for name in re.findall(r"\{(\w+)\}", row.path)} | set(OBJECTS)
    values = {name: create_object(name, cast, client_of, node) for name in sorted(names)}
    client = client_of(people[user])
    shown = {
        row.path
        for row in READS
        if PRIVATE in client.get("/api/v1/" + row.path.format(**values)).content.decode()
    }
    if user == "bob":
        assert {"allocations", "allocations/{allocation_id}", "sessions", "tasks"} <= shown
    else:
        assert not shown
