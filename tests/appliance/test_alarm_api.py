"""REST and commands of alarms and their definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import Project, User
from appliance.activity.models import Event
from appliance.alarms.builtin import DEFINITIONS, ensure_builtin_definitions
from appliance.alarms.conditions import require_valid
from appliance.alarms.delivery import secret_of
from appliance.alarms.evaluator import Evaluator
from appliance.alarms.models import Alarm, AlarmDefinition
from appliance.audit.models import AuditRecord
from appliance.inventory.models import Node, NodeState
from appliance.pools.models import Pool
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
CORDONED = {
    "name": "a",
    "severity": "warning",
    "object_kind": "node",
    "condition": "state",
    "states": ["cordoned"],
    "clear_after_seconds": 0,
}


def create(client: Any, **values: Any) -> Any:
    return client.post("/api/v1/alarm-definitions", CORDONED | values, format="json")


def change(client: Any, row: Any, **values: Any) -> Any:
    return client.patch(f"/api/v1/alarm-definitions/{row['id']}", values, format="json")


@pytest.fixture
def olga(cast: Cast, client_of: Clients) -> Any:
    return client_of(cast.olga)


def test_acknowledged_alarm_stays_until_its_condition_ends(
    cast: Cast, olga: Any, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node(name="n1")
    create(olga)
    Node.objects.update(state=NodeState.CORDONED)
    evaluator = Evaluator()
    evaluator.evaluate()
    (alarm,) = body(olga.get("/api/v1/alarms?open=true"))["items"]
    assert (alarm["state"], alarm["node_id"], alarm["path"]) == (
        "active",
        str(node.pk),
        f"nodes/{node.pk}",
    )
    path = f"/api/v1/alarms/{alarm['id']}"
    stale = olga.post(f"{path}/acknowledge", {}, format="json", headers={"If-Match": '"9"'})
    assert body(stale)["code"] == "stale"
    known = olga.post(f"{path}/acknowledge", {"text": "new fan"}, format="json")
    assert (body(known)["state"], body(known)["acknowledged_by"]) == ("acknowledged", "olga")
    evaluator.evaluate()
    assert body(olga.get(path))["state"] == "acknowledged"
    Node.objects.update(state=NodeState.READY)
    evaluator.evaluate()
    assert body(olga.get("/api/v1/alarms?open=true"))["items"] == []
    assert body(olga.post(f"{path}/acknowledge", {}, format="json"))["code"] == "conflict"
    history = body(olga.get(f"{path}/history"))["items"]
    assert [(e["kind"], e["actor"]) for e in history[::-1]] == [
        ("raised", "system"),
        ("acknowledged", "olga"),
        ("cleared", "system"),
    ]
    kinds = list(Event.objects.filter(object_id=alarm["id"]).values_list("kind", flat=True))
    assert sorted(kinds) == ["alarm.acknowledged", "alarm.cleared", "alarm.raised"]
    assert AuditRecord.objects.filter(object_kind="alarm", actor="olga").exists()


@pytest.mark.parametrize(
    ("field", "value"), [("window_seconds", "60"), ("enabled", "true"), ("notes", 7)]
)
def test_value_of_another_type_is_refused(olga: Any, field: str, value: object) -> None:
    refused = create(olga, **{field: value})
    assert refused.status_code == 400
    assert [e["pointer"] for e in body(refused)["errors"]] == [f"/{field}"]


@pytest.mark.parametrize(
    ("values", "detail"),
    [
        ({"states": []}, "needs states"),
        ({"states": ["mig"]}, "States of node"),
        ({"threshold": 3}, "has no threshold"),
        ({"condition": "metric", "states": []}, "is about gpu, not node"),
        ({"condition": "metric", "object_kind": "gpu", "states": []}, "needs metric"),
        (
            {
                "condition": "metric",
                "object_kind": "gpu",
                "states": [],
                "metric": "speed",
                "threshold": 1,
            },
            "Unknown metric speed",
        ),
        (
            {
                "condition": "metric",
                "object_kind": "gpu",
                "states": [],
                "metric": "power_watts",
                "threshold": 100,
                "clear_threshold": 110,
            },
            "other side",
        ),
        ({"condition": "event", "states": [], "event_kind": "x"}, "needs window_seconds"),
        ({"pool": "default"}, "A pool has no node below it"),
        ({"webhook_url": "ftp://x/"}, "webhook_url must be"),
        ({"script": "../x"}, "script must be the name of a file"),
        ({"threshold": "1"}, "threshold"),
    ],
)
def test_definition_that_does_not_fit_together_is_refused(
    olga: Any, values: dict[str, Any], detail: str
) -> None:
    refused = create(olga, **values)
    assert refused.status_code == 400 and detail in refused.content.decode(), refused.content
    assert not AlarmDefinition.objects.exists()


def test_unknown_places_and_users_are_not_found(olga: Any) -> None:
    assert body(create(olga, node="absent"))["code"] == "not_found"
    assert body(create(olga, mail_users=["absent"]))["code"] == "not_found"
    assert create(olga).status_code == 201
    assert body(create(olga))["code"] == "conflict"


def test_another_place_or_condition_clears_the_alarms(
    cast: Cast, olga: Any, add_node: AddNode
) -> None:
    add_node(name="n1"), add_node(name="n2")
    Node.objects.update(state=NodeState.CORDONED)
    row = body(create(olga))
    evaluator = Evaluator()
    evaluator.evaluate()
    assert change(olga, row, severity="critical").status_code == 200
    assert Alarm.objects.open().count() == 2
    changed = body(change(olga, row, node="n2"))
    assert (changed["node"], Alarm.objects.open().count()) == ("n2", 0)
    evaluator.evaluate()
    assert [a.object_name for a in Alarm.objects.open()] == ["n2"]
    assert body(change(olga, row, node=None))["node"] is None
    assert olga.delete(f"/api/v1/alarm-definitions/{row['id']}").status_code == 204
    assert Alarm.objects.open().count() == 0 and Alarm.objects.exists()


def test_secret_of_a_webhook_is_never_shown_and_goes_with_its_address(olga: Any) -> None:
    row = body(create(olga, webhook_url="https://a.example/", webhook_secret="hunter2hunter2"))
    assert row["webhook_secret_is_set"] and "hunter2" not in str(row)
    stored = AlarmDefinition.objects.get()
    assert "hunter2" not in stored.webhook_secret
    assert secret_of(stored) == "hunter2hunter2"
    assert not any("hunter2" in str(r.after) for r in AuditRecord.objects.all())
    assert body(change(olga, row, notes="x"))["webhook_secret_is_set"]
    assert not body(change(olga, row, webhook_url="https://b.example/"))["webhook_secret_is_set"]


def test_definition_of_the_product_can_be_disabled_only(olga: Any) -> None:
    ensure_builtin_definitions()
    (row,) = body(olga.get("/api/v1/alarm-definitions?name=GPU hot"))["items"]
    assert body(olga.delete(f"/api/v1/alarm-definitions/{row['id']}"))["code"] == "conflict"
    assert body(change(olga, row, name="x"))["code"] == "conflict"
    assert body(change(olga, row, enabled=False))["enabled"] is False


def test_alarms_of_a_project_and_of_a_restricted_pool_are_hidden_from_others(
    cast: Cast, client_of: Clients, olga: Any, add_node: AddNode
) -> None:
    definition = AlarmDefinition.objects.create(**CORDONED)
    project = Project.objects.get(name="default")
    common = {
        "name": "a",
        "severity": "info",
        "object_kind": "allocation",
        "path": "x",
        "message": "m",
        "definition": definition,
    }
    pool = Pool.objects.create(name="p", project_ids=[str(project.pk)])
    Alarm.objects.create(
        object_id=cast.alice.pk, object_name="ours", project_id=project.pk, **common
    )
    Alarm.objects.create(
        object_id=pool.pk, object_name="hidden", project_id=pool.event_project, **common
    )
    Alarm.objects.create(object_id=cast.bob.pk, object_name="shared", **common)

    def seen(user: User) -> set[str]:
        items = body(client_of(user).get("/api/v1/alarms"))["items"]
        return {a["object_name"] for a in items}

    assert seen(cast.alice) == {"ours", "shared"}
    assert seen(cast.charlie) == {"shared"}
    assert seen(cast.vera) == {"ours", "hidden", "shared"}


def test_definitions_of_the_product_are_valid_and_stay_as_changed(cast: Cast) -> None:
    ensure_builtin_definitions()
    rows = list(AlarmDefinition.objects.all())
    assert len(rows) == len(DEFINITIONS) >= 30 and all(row.is_builtin for row in rows)
    for row in rows:
        require_valid(row)
    AlarmDefinition.objects.filter(name="GPU hot").update(enabled=False, threshold=70)
    ensure_builtin_definitions()
    row = AlarmDefinition.objects.get(name="GPU hot")
    assert (row.enabled, row.threshold) == (False, 70) and AlarmDefinition.objects.count() == len(
        rows
    )
