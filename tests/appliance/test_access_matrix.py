"""Every operation with every role, on what is one's own, on another's and on what is not there; `access.txt` says what must come."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.urls import URLPattern, get_resolver
from django.utils import timezone

from appliance.accounts.models import Project, User
from appliance.accounts.permissions import PRIVILEGES
from appliance.activity.models import Task
from appliance.allocations.index import index
from appliance.allocations.models import Partition, Session, SessionState
from appliance.fleet.models import SshHostKey
from appliance.inventory.models import Gpu, Node, Site
from appliance.pools.models import Pool, Quota, Reservation
from appliance.rest import ApplianceView
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
PEOPLE = ("alice", "bob", "charlie", "vera", "olga", "admin", None)
ROLES = {
    "alice": "user",
    "bob": "user",
    "charlie": "user",
    "vera": "viewer",
    "olga": "operator",
    "admin": "administrator",
}
EVERY = set().union(*PRIVILEGES.values()) | {"public"}


@dataclass(frozen=True)
class Row:
    method: str
    path: str
    own: tuple[int, ...]
    object: bool
    sent: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def rows() -> Iterator[Row]:
    for line in (Path(__file__).parent / "access.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            method, path, *rest = line.split(None, 9)
            own, last = tuple(map(int, rest[:7])), rest[7] if len(rest) > 7 else ""
            sent = last.removeprefix("=").strip()
            yield Row(
                method, path, own, not last.startswith("="), json.loads(sent) if sent else None
            )


TABLE = list(rows())


def views() -> Iterator[tuple[str, type[ApplianceView]]]:
    """Path, with {name} for each of its ids, and view."""
    for pattern in get_resolver().url_patterns:
        assert isinstance(pattern, URLPattern)
        if (path := str(pattern.pattern)).startswith("api/v1/"):
            yield (
                re.sub(r"<\w+:(\w+)>", r"{\1}", path.removeprefix("api/v1/")),
                pattern.callback.view_class,
            )


def privilege_of(row: Row) -> str:
    """The matrix names its objects by kind, some routes call them object_id."""
    for path, view in views():
        if re.sub(r"\{\w+\}", "{}", path) == re.sub(r"\{\w+\}", "{}", row.path):
            return view.privileges[row.method]
    raise AssertionError(f"{row}: there is no such operation")


def test_every_view_names_a_known_privilege_for_each_of_its_methods() -> None:
    for path, view in views():
        assert issubclass(view, ApplianceView), f"{path} goes round can() and visible_to()"
        methods = {m.upper() for m in ("get", "post", "put", "patch", "delete") if hasattr(view, m)}
        assert methods == set(view.privileges), f"{path}: {methods} against {set(view.privileges)}"
        assert set(view.privileges.values()) <= EVERY, path


def test_every_operation_has_one_row() -> None:
    there = sorted(
        (method, re.sub(r"\{\w+\}", "{}", path))
        for path, view in views()
        for method in view.privileges
    )
    written = sorted((r.method, re.sub(r"\{\w+\}", "{}", r.path)) for r in TABLE)
    assert written == there, (
        f"without a row: {set(there) - set(written)}; without an operation: {set(written) - set(there)}"
    )


def make(kind: str, cast: Cast, client_of: Clients, node: Node) -> object:
    """The id of a fresh object of alice's project, or of the appliance."""
    allocation = body(
        client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json")
    )["id"]
    applied(node)
    ours, pool, now = (
        Project.objects.get(name="default"),
        Pool.objects.get(name="default"),
        timezone.now(),
    )
    session = {
        "client_pid": 1,
        "pid": 1,
        "client_address": "::1",
        "program": "p",
        "opened_at": now,
        "state": SessionState.RUNNING,
    }

    def waiting() -> str:
        return str(
            body(
                client_of(cast.alice).post("/api/v1/allocations", {"gpu_count": 16}, format="json")
            )["id"]
        )

    makers: dict[str, Callable[[], object]] = {
        "allocation_id": lambda: allocation,
        "node_id": lambda: node.pk,
        "gpu_id": lambda: Gpu.objects.get().pk,
        "site_id": lambda: Site.objects.get_or_create(name="s")[0].pk,
        "pool_id": lambda: pool.pk,
        "project_id": lambda: ours.pk,
        "partition_id": lambda: Partition.objects.get(allocation_id=allocation).pk,
        "task_id": lambda: Task.objects.get(path__endswith=waiting()).pk,
        "python": lambda: "2.7",
        "quota_id": lambda: (
            Quota.objects.update_or_create(
                subject_kind="project", subject_id=ours.pk, defaults={"quota_percent": 100}
            )[0].pk
        ),
        "reservation_id": lambda: (
            Reservation.objects.create(
                name="r",
                pool=pool,
                project=ours,
                gpu_count=1,
                starts_at=now,
                ends_at=now + timedelta(hours=1),
            ).pk
        ),
        "session_id": lambda: (
            Session.objects.create(
                id=uuid.uuid4(), allocation_id=allocation, node=node, **session
            ).pk
        ),
        "key_id": lambda: (
            SshHostKey.objects.update_or_create(
                address="h",
                port=22,
                defaults={"key_type": "k", "sha256": "s", "confirmed_by": "olga"},
            )[0].pk
        ),
    }
    return makers[kind]()


def ask(row: Row, client: Any, values: dict[str, object], expected: int, who: str | None) -> None:
    content = json.dumps(row.sent).replace("SOMEBODY", f"{who}") if row.sent is not None else ""
    response = client.generic(
        row.method, "/api/v1/" + row.path.format(**values), content, "application/json"
    )
    assert response.status_code == expected, (
        f"{who}: {response.status_code}, not {expected}: {response.content[:300]!r}"
    )
    if expected >= 400:
        assert response["Content-Type"] == "application/problem+json" and body(response)["detail"]


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_matrix(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], row: Row
) -> None:
    node, privilege = add_node(), privilege_of(row)
    names = re.findall(r"\{(\w+)\}", row.path)
    for who, expected in zip(PEOPLE, row.own, strict=True):
        with transaction.atomic():
            client = client_of(getattr(cast, who) if who else None)
            ask(
                row,
                client,
                {name: make(name, cast, client_of, node) for name in names},
                expected,
                who,
            )
            if row.object and "python" not in names:
                lacks = who is not None and privilege not in PRIVILEGES[ROLES[who]]
                ask(
                    row,
                    client,
                    dict.fromkeys(names, uuid.uuid4()),
                    401 if who is None else 403 if lacks else 404,
                    f"{who}, absent",
                )
            transaction.set_rollback(True)  # the next one finds everything as it was
        index.forget()
