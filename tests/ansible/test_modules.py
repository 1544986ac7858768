"""The modules for objects of the appliance against a real appliance."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import ROOT, wait_for
from tests.ansible.commands import BIN, environment
from tests.ansible.module_runner import RunModule, load_plugin
from tests.fleet.conftest import Appliance

pytestmark = pytest.mark.system
TIMES = {"starts_at": "2030-01-01T09:00:00+01:00", "ends_at": "2030-01-01T10:00:00Z"}


@dataclass
class Case:
    """Options that create an object, and those that change it: the second is empty if none can."""

    module: str
    create: dict[str, Any]
    change: dict[str, Any] = field(default_factory=dict)
    filter: str = "name"

    @property
    def path(self) -> str:
        return self.module.replace("_", "-") + "s"

    @property
    def info_key(self) -> str:
        return self.path.replace("-", "_")


# In this order each case can use the objects of the table below.
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("department", {"name": "research"}),
    ("project", {"name": "vision"}),
    ("user", {"username": "ada"}),
    ("user", {"username": "ci", "is_service": True}),
    ("user", {"username": "hopper"}),
]
PENDING = {"allow_pending": True, "selector": {"rack": 12}, "lifetime_seconds": 600}
WEBHOOK: dict[str, Any] = {"webhook_url": "https://hooks.example/busbar", "webhook_secret": "first"}
RESERVATION = {"pool": "default", "project": "vision", "gpu_count": 1, "allow_pending": True}
HOT: dict[str, Any] = {
    "severity": "warning",
    "object_kind": "gpu",
    "condition": "metric",
    "metric": "temperature_celsius",
    "threshold": 80,
}
LIMITS = {"max_idle_seconds": 60, "max_late_seconds": 30}
CASES = [
    Case("department", {"name": "physics"}),
    Case("project", {"name": "speech"}, {"department": "research"}),
    Case("site", {"name": "north", "notes": "Hall 1"}, {"notes": "Hall 2"}),
    Case("user", {"username": "grace"}, {"is_active": False}, filter="username"),
    Case("group", {"name": "researchers", "users": ["ada"]}, {"users": ["ci"]}),
    Case(
        "role",
        {"name": "auditor", "privileges": ["audit.read"]},
        {"privileges": ["audit.read", "inventory.view"]},
    ),
    Case("role_binding", {"role": "user", "user": "ada", "project": "vision"}, filter="user"),
    Case(
        "token",
        {"name": "pipeline", "user": "ci", "scopes": ["viewer"], "networks": ["10.0.0.1"]},
        {"networks": ["192.0.2.0/24"], "replace": True},
    ),
    Case(
        "quota",
        {"subject_kind": "project", "subject": "vision", "quota_gpus": 1.5},
        {"limit_gpus": 4},
        filter="subject",
    ),
    Case("reservation", {"name": "course", **RESERVATION, **TIMES}),
    Case(
        "pool",
        {"name": "a100", "projects": ["vision", "default"], "labels": {"rack": 12}, **LIMITS},
        {"fallbacks": ["default"], "max_idle_seconds": 0, "max_late_seconds": 0, "projects": []},
    ),
    Case(
        "alarm_definition",
        {"name": "Hot", "mail_users": ["ada", "hopper"], **HOT, **WEBHOOK},
        {"threshold": 75.5, "enabled": False, "mail_users": ["hopper"], "pool": "default"},
    ),
    Case("allocation", {"name": "nightly", "project": "vision", "hold": "lifetime", **PENDING}),
]


@pytest.fixture(scope="module")
def objects(run_module: RunModule) -> None:
    for name, options in OBJECTS:
        result = run_module(name, **options)
        assert result.get("changed"), result


def apply_twice(run_module: RunModule, rows: Callable[[], Any], case: Case, **options: Any) -> Any:
    """Apply the options in check mode, then twice, and return the result of the first time."""
    before = rows()
    checked = run_module(case.module, check=True, **options)
    assert checked.get("changed") is True, checked
    assert rows() == before, "check mode must change nothing"
    first = run_module(case.module, **options)
    assert first.get("changed") is True and rows() != before, first
    assert first["diff"]["before"] != first["diff"]["after"]
    assert checked["diff"]["before"] == first["diff"]["before"]
    assert checked["diff"]["after"].items() <= first["diff"]["after"].items(), checked
    second = run_module(case.module, **options)
    assert second.get("changed") is False, second
    assert second["diff"]["before"] == second["diff"]["after"] == first["diff"]["after"]
    return first


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.module)
def test_module_creates_changes_and_deletes_once_with_check_mode_and_diff(
    session_appliance: Appliance, objects: None, run_module: RunModule, case: Case
) -> None:
    api = session_appliance.api

    def rows() -> Any:
        found = api.items(case.path)
        members = [api.items(f"groups/{r['id']}/members") for r in found if case.module == "group"]
        return found, members

    created = apply_twice(run_module, rows, case, **case.create)
    assert created["diff"]["before"] == {"state": "absent"}
    listed = run_module(case.module + "_info", **{case.filter: case.create[case.filter]})
    assert [row["id"] for row in listed[case.info_key]] == [created[case.module]["id"]]
    if case.change:
        changed = apply_twice(run_module, rows, case, **case.create | case.change)
        after = changed["diff"]["after"]
        wanted = {name: new for name, new in case.change.items() if name != "replace"}
        assert wanted.items() <= after.items(), after
    deleted = apply_twice(run_module, rows, case, **case.create, state="absent")
    assert deleted["diff"]["after"] == {"state": "absent"}


@pytest.mark.parametrize(
    ("module", "options", "number"),
    [
        ("quota", {"subject_kind": "user", "subject": "hopper"}, "limit_gpus"),
        ("alarm_definition", HOT | {"name": "Warm"}, "clear_threshold"),
    ],
)
def test_number_is_removed_once(
    session_appliance: Appliance,
    objects: None,
    run_module: RunModule,
    module: str,
    options: dict[str, Any],
    number: str,
) -> None:
    case = Case(module, options)

    def rows() -> Any:
        return session_appliance.api.items(case.path)

    assert run_module(module, **options, **{number: 70})["changed"]
    removed = apply_twice(run_module, rows, case, **options, unset=[number])
    assert removed["diff"]["before"][number] == 70 and removed["diff"]["after"][number] is None
    both = run_module(module, **options, **{number: 70}, unset=[number])
    assert both["failed"] and "not both" in both["msg"]
    run_module(module, state="absent", **options)


def test_role_bindings_in_different_places_are_different_objects(
    objects: None, run_module: RunModule
) -> None:
    places: tuple[dict[str, str], ...] = (
        {"project": "vision"},
        {"project": "default"},
        {"department": "research"},
        {"pool": "default"},
        {},
    )
    for place in places:
        options = {"role": "viewer", "user": "ci", **place}
        assert run_module("role_binding", **options)["changed"], place
        assert not run_module("role_binding", **options)["changed"], place
    for place in ({"project": "vision"}, {"pool": "default"}):
        listed = run_module("role_binding_info", role="viewer", user="ci", **place)
        assert len(listed["role_bindings"]) == 1, place


def test_allocation_that_differs_is_refused(objects: None, run_module: RunModule) -> None:
    options = {"name": "fixed", "project": "vision", **PENDING}
    created = run_module("allocation", percent=25, **options)["allocation"]
    refused = run_module("allocation", percent=25, hold="lifetime", **options)
    assert refused["failed"] and "another value of hold, which cannot" in refused["msg"]
    queued = run_module("allocation", percent=50, **options)
    assert queued["failed"] and "only an active allocation can be resized" in queued["msg"]
    capped = {"percent": 25, "compute_mode": "capped", **options}
    shown = run_module("allocation", check=True, **capped)
    assert shown["changed"] and shown["diff"]["before"]["compute_mode"] == "shared"
    assert shown["diff"]["after"]["compute_mode"] == "capped"
    waits = run_module("allocation", **capped)
    assert waits["failed"] and "only an active allocation can be resized" in waits["msg"]
    assert run_module("allocation", state="absent", **options)["changed"]
    ended = run_module("allocation_info", name="fixed", states=["releasing", "released"])
    assert [row["id"] for row in ended["allocations"]] == [created["id"]]
    assert run_module("allocation_info", name="fixed", states=["queued"])["allocations"] == []


def test_whole_gpus_have_no_other_size(objects: None, run_module: RunModule) -> None:
    options = {"name": "whole", "project": "vision", "compute_mode": "exclusive", **PENDING}
    made = run_module("allocation", percent=25, **options)["allocation"]
    assert (made["percent"], made["compute_mode"]) == (100, "exclusive")
    assert not run_module("allocation", percent=25, **options)["changed"]
    assert run_module("allocation", state="absent", **options)["changed"]


def test_allocation_is_suspended_and_resumed_once(
    objects: None, run_module: RunModule, collections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests of the module; this appliance has no node that could suspend."""
    options = {"name": "sleeper", "project": "vision", "wait_seconds": 1, **PENDING}
    path = f"allocations/{run_module('allocation', **options)['allocation']['id']}"
    refused = run_module("allocation", state="suspended", **options)
    assert refused["failed"] and "only an active allocation can be suspended" in refused["msg"]
    client = load_plugin(collections, "module_utils.appliance").Appliance
    original, listed = client.request, client.items
    sent: list[str] = []
    suspension: list[dict[str, str] | None] = [None]

    def items(self: Any, *arguments: Any) -> Any:
        return [row | {"suspension": suspension[0]} for row in listed(self, *arguments)]

    def request(self: Any, method: str, target: str, *rest: Any, **more: Any) -> Any:
        if method == "POST" and "heartbeat" not in target:
            sent.append(target)
            target, method = path, "GET"
        return original(self, method, target, *rest, **more)

    monkeypatch.setattr(client, "items", items)
    monkeypatch.setattr(client, "request", request)

    def changes(state: str, *, check: bool = False) -> bool:
        return bool(run_module("allocation", check=check, state=state, **options)["changed"])

    assert changes("suspended", check=True) and sent == []
    assert changes("suspended") and not changes("active") and not changes("present")
    suspension[0] = {"state": "waiting"}
    assert changes("active") and not changes("suspended") and not changes("present")
    suspension[0] = {"state": "failed"}
    assert changes("suspended") and not changes("active")
    assert sent == [f"{path}/{a}?wait=1" for a in ("suspend", "resume", "suspend")]
    monkeypatch.undo()
    run_module("allocation", state="absent", **options)


def test_existing_allocation_gets_a_heartbeat_but_not_in_check_mode(
    objects: None, run_module: RunModule, collections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"name": "kept", "project": "vision", **PENDING}
    path = f"allocations/{run_module('allocation', **options)['allocation']['id']}/heartbeat"
    client = load_plugin(collections, "module_utils.appliance").Appliance
    sent: list[str] = []

    def request(self: Any, method: str, target: str, *rest: Any, **more: Any) -> Any:
        sent.append(target)
        return original(self, method, target, *rest, **more)

    original = client.request
    monkeypatch.setattr(client, "request", request)
    assert not run_module("allocation", check=True, **options)["changed"] and path not in sent
    assert not run_module("allocation", **options)["changed"] and path in sent
    run_module("allocation", state="absent", **options)


def test_modules_return_a_secret_only_once(objects: None, run_module: RunModule) -> None:
    options = {"name": "once", "user": "ci"}
    created, again = run_module("token", **options), run_module("token", **options)
    assert created["token"]["token"] and "token" not in again["token"]
    assert "token" not in created["diff"]["after"]
    person, again = run_module("user", username="linus"), run_module("user", username="linus")
    assert person["user"]["one_time_password"] and "one_time_password" not in again["user"]


def test_token_with_other_scopes_or_networks_is_refused_or_replaced_on_request(
    session_appliance: Appliance, objects: None, run_module: RunModule
) -> None:
    options = {"name": "limited", "user": "ci", "networks": ["10.0.0.0/8", "192.0.2.7"]}
    created = run_module("token", scopes=["viewer", "allocations.create"], **options)["token"]

    other_order = options | {"networks": ["192.0.2.7/32", "10.0.0.0/8"]}
    same = run_module("token", scopes=["allocations.create", "viewer"], **other_order)
    assert same["changed"] is False, same
    others: list[dict[str, Any]] = [
        {"scopes": ["viewer"]},
        {"networks": []},
        {"networks": ["10.0.0.0/9"]},
    ]
    for other in others:
        refused = run_module("token", **options | other)
        assert refused["failed"] and "set replace=true" in refused["msg"], refused
        assert next(iter(other)) in refused["msg"]

    api = session_appliance.api
    replaced = run_module("token", scopes=[], replace=True, **options)
    assert replaced["changed"] and replaced["token"]["token"] != created["token"]
    rows = [row for row in api.items("tokens") if row["name"] == "limited"]
    assert [row["id"] for row in rows] == [replaced["token"]["id"]], "the old one is revoked"
    assert rows[0]["scopes"] == []


def test_absent_revokes_all_tokens_of_the_name(
    session_appliance: Appliance, objects: None, run_module: RunModule
) -> None:
    for _ in range(2):
        session_appliance.api.request("POST", "tokens", {"name": "twice", "user": "ci"})
    assert run_module("token", name="twice", user="ci", state="absent")["changed"]
    assert not run_module("token", name="twice", user="ci", state="absent")["changed"]


def test_secret_of_a_webhook_is_sent_when_there_is_none_or_on_request(
    objects: None, run_module: RunModule
) -> None:
    kind = {"severity": "info", "object_kind": "node", "condition": "state", "states": ["locked"]}
    options = {"name": "Locked", **kind}

    def change(*, check: bool = False, **more: Any) -> tuple[bool, bool]:
        """Return whether the definition changes, and whether it then has a secret."""
        result = run_module("alarm_definition", check=check, **options, **more)
        assert not (secret := more.get("webhook_secret")) or secret not in str(result), result
        return result["changed"], result["alarm_definition"]["webhook_secret_is_set"]

    assert change(webhook_url=WEBHOOK["webhook_url"]) == (True, False)
    for expected in ((True, True), (False, True)):
        assert change(check=True, **WEBHOOK) == expected
        assert change(**WEBHOOK) == expected
    assert change(**WEBHOOK, update_webhook_secret=True) == (True, True)
    other: dict[str, Any] = {"webhook_url": "https://hooks.example/other"}
    assert change(check=True, **other) == (True, False), "it belonged to the other address"
    assert change(check=True, **WEBHOOK | other) == (True, True)
    assert change(**WEBHOOK | other) == (True, True)
    for expected in ((True, False), (False, False)):
        assert change(check=True, **other, webhook_secret="") == expected
        assert change(**other, webhook_secret="") == expected
    run_module("alarm_definition", state="absent", **options)


def test_definition_of_the_product_is_disabled_but_not_deleted(run_module: RunModule) -> None:
    options = {"name": "GPU hot"}
    assert run_module("alarm_definition", enabled=False, **options)["changed"]
    listed = run_module("alarm_definition_info", enabled=False, **options)["alarm_definitions"]
    assert [row["is_builtin"] for row in listed] == [True]
    refused = run_module("alarm_definition", state="absent", **options)
    assert refused["failed"] and "came with the product" in refused["msg"]
    assert run_module("alarm_definition", enabled=True, **options)["changed"]


def test_alarm_info_lists_open_alarms_and_others_on_request(
    session_appliance: Appliance, objects: None, run_module: RunModule
) -> None:
    kind = {"severity": "info", "object_kind": "allocation", "condition": "queue_wait"}
    options = {"name": "Waits", "threshold": 0.5, "clear_after_seconds": 0, **kind}
    request = {"name": "waiting", "project": "vision", **PENDING}

    def listed(**more: Any) -> list[tuple[str, str]]:
        rows = run_module("alarm_info", name="Waits", **more)["alarms"]
        return [(row["object_name"], row["state"]) for row in rows]

    assert run_module("allocation", **request)["changed"]
    assert run_module("alarm_definition", **options)["changed"] and listed() == []
    log = session_appliance.stack.logs / "appliance.log"
    wait_for("an alarm", lambda: listed() != [], log, 60)
    assert listed(severity="info", object_kind="allocation") == [("waiting of local", "active")]
    assert listed(severity="critical") == listed(object_name="other") == []
    run_module("alarm_definition", state="absent", **options)
    assert listed() == [] and listed(states=["cleared"]) == [("waiting of local", "cleared")]
    run_module("allocation", state="absent", **request)


def test_errors_of_modules_say_what_to_do_next(objects: None, run_module: RunModule) -> None:
    service = run_module("user", username="ada", is_service=True)
    assert service["failed"] and "remove it with state=absent" in service["msg"]
    used = run_module("project", name="absent", department="nowhere")
    assert used["failed"] and used["code"] == "not_found", used
    unbound = run_module("role_binding", role="user", check=True)
    assert unbound["failed"] and "one of the following is required: user, group" in unbound["msg"]


def readme_play(connection: dict[str, str]) -> str:
    """Return the playbook under "Manage objects" in the README, for this appliance."""
    text = (ROOT / "ansible" / "README.md").read_text().partition("## Manage objects")[2]
    play = text.partition("```yaml")[2].partition("```")[0]
    for example, real in (
        ("https://busbar.example:8443", connection["url"]),
        ("/etc/busbar/ca.pem", connection["ca_file"]),
        ("vault_busbar_token", "lookup('env', 'BUSBAR_TOKEN')"),
    ):
        assert example in play
        play = play.replace(example, real)
    return play


def test_playbook_of_the_readme_changes_nothing_the_second_time(
    session_appliance: Appliance, connection: dict[str, str], collections: Path, tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text(readme_play(connection))
    command = [BIN / "ansible-playbook", tmp_path / "play.yml"]
    variables = environment(collections, BUSBAR_TOKEN=connection["token"])
    output = [
        subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=120, check=False
        ).stdout
        for _ in range(2)
    ]
    assert "failed=0" in output[0] and "ok=3    changed=0" in output[1], output
    project = session_appliance.api.find_by_name("projects", "vision")
    assert project["department"] == "research"
