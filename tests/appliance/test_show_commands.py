"""busbar KIND show: a sheet with related objects for people, the object itself for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.allocations.models import Partition
from appliance.inventory.models import Gpu, Node, Site
from tests.appliance.commands_in_process import Busbar, BusbarOf
from tests.appliance.conftest import Cast
from tests.appliance.test_access_matrix import create_object

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = [
    pytest.mark.django_db(databases=list(settings.DATABASES)),
    pytest.mark.usefixtures("node"),
]


@pytest.fixture
def node(cast: Cast, add_node: AddNode) -> Node:
    made = add_node(name="n1", gpus=1)
    made.site = Site.objects.create(name="hall", notes="by the river")
    made.save(update_fields=["site"])
    return made


def ids(names: list[str], cast: Cast, client_of: Clients, node: Node) -> dict[str, str]:
    return {name: str(create_object(name, cast, client_of, node)) for name in names}


SHEETS = [
    (["site", "show", "hall"], ["Site hall", "by the river", "Nodes", "n1"]),
    (["node", "show", "n1"], ["Node n1", "Driver version", "GPUs", "Partitions", "5", "Events"]),
    (["gpu", "show", "n1/0"], ["GPU n1/0", "Test GPU", "Partitions", "alice", "default"]),
    (["pool", "show", "default"], ["Pool default", "Capacity", "GPUs", "n1", "Reservations", "r "]),
    (["reservation", "show", "{reservation_id}"], ["Reservation r", "Allocations", "none"]),
    (["quota", "show", "project/default"], ["Quota of project default", "1.0", "Active"]),
    (["project", "show", "default"], ["Project default", "Quota", "alice", "Reservations"]),
    (["department", "show", "science"], ["Department science", "Projects", "Roles in"]),
    (["user", "show", "alice"], ["User alice", "Roles of the user", "project/default", "Tokens"]),
    (["group", "show", "students"], ["Group students", "Members", "dora", "Roles of the group"]),
    (["role", "show", "viewer"], ["Role viewer", "inventory.view", "Bindings", "vera"]),
    (["role-binding", "show", "{binding_id}"], ["Role binding", "project/default", "Privileges"]),
    (["token", "show", "{token_id}"], ["Token ci", "alice", "Tokens that it has made"]),
    (["allocation", "show", "{allocation_id}"], ["Allocation", "Partitions", "n1", "Sessions"]),
    (["session", "show", "{session_id}"], ["Session of", "Allocation", "alice"]),
    (["task", "show", "{task_id}"], ["Task allocation", "Log", "Parts"]),
]


@pytest.mark.parametrize(("line", "texts"), SHEETS, ids=[" ".join(line[:2]) for line, _ in SHEETS])
def test_sheet_shows_the_object_and_what_belongs_to_it(
    busbar: Busbar, cast: Cast, client_of: Clients, node: Node, line: list[str], texts: list[str]
) -> None:
    kinds = ["allocation_id", "reservation_id", "quota_id", "department_id", "group_id"]
    kinds += ["member_id", "binding_id", "token_id", "session_id", "task_id"]
    values = ids(kinds, cast, client_of, node)
    command = [word.format(**values) for word in line]
    done = busbar(*command)
    assert (done.status, done.err) == (0, ""), done
    missing = [text for text in texts if text not in done.out]
    assert not missing, f"{missing} missing in\n{done.out}"
    assert "{" not in done.out, "a sheet is no JSON"
    shown = json.loads(busbar(*command, "-o", "json").out)
    assert shown["id"] in values.values() or shown["id"] is None or shown["id"] in done.out


def test_queued_allocation_shows_its_reason_and_alternatives(
    busbar: Busbar, cast: Cast, client_of: Clients
) -> None:
    request = {"gpu_count": 16, "allow_pending": True, "name": "large"}
    made = client_of(cast.alice).post("/api/v1/allocations", request, format="json").json()
    done = busbar("allocation", "show", made["id"])
    assert "queued" in done.out and "Alternatives that would start immediately" in done.out


@pytest.mark.parametrize("subject", ["default", "project/", "pool/default"])
@pytest.mark.parametrize("command", ["show", "set", "delete"])
def test_quota_commands_take_the_same_subjects(busbar: Busbar, command: str, subject: str) -> None:
    done = busbar("quota", command, subject)
    assert done.status == 2 and "Give user/NAME, project/NAME or department/NAME" in done.err, done


def test_small_sizes_have_a_smaller_unit(
    busbar: Busbar, cast: Cast, client_of: Clients, node: Node
) -> None:
    pk = ids(["allocation_id"], cast, client_of, node)["allocation_id"]
    Partition.objects.filter(allocation_id=pk).update(memory_bytes=8 << 20)
    shown = busbar("allocation", "show", pk).out
    assert "8.00 MiB" in shown and "0.01 GiB" not in shown


def test_related_objects_that_the_user_may_not_see_are_named_as_such(
    cast: Cast, client_of: Clients, busbar_of: BusbarOf
) -> None:
    busbar = busbar_of(client_of(cast.alice))
    done = busbar("project", "show", "default")
    assert done.status == 0 and "not visible to you" in done.out


def test_long_table_ends_with_a_hint(busbar: Busbar) -> None:
    node = Node.objects.get()
    for index in range(1, 13):
        Gpu.objects.create(
            node=node,
            pool=Gpu.objects.get(node=node, index=0).pool,
            uuid=f"0192f0c1-a2b3-7c4d-8e5f-{index:012d}",
            index=index,
            model="m",
            memory_bytes=1,
            compute_capability="9.0",
        )
    done = busbar("pool", "show", "default")
    assert "and more" in done.out


@pytest.mark.parametrize("kind", ["site", "node", "pool", "project", "user", "group", "department"])
def test_absent_object_is_named(busbar: Busbar, kind: str) -> None:
    done = busbar(kind, "show", "absent")
    assert done.status == 3 and '"absent" not found' in done.err
