"""The modules for objects of the appliance against a real appliance."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.test_collection import collections, environment
from tests.fleet.conftest import Appliance

__all__ = ["collections"]
pytestmark = pytest.mark.system
Run = Callable[..., dict[str, Any]]
TIMES = {"starts_at": "2030-01-01T08:00:00Z", "ends_at": "2030-01-01T10:00:00Z"}


@dataclass
class Case:
    """Options that create an object, and those that change it: the second is empty if none can."""

    module: str
    create: dict[str, Any]
    change: dict[str, Any] = field(default_factory=dict)
    filter: str = "name"

    @property
    def path(self) -> str:
        return {"role_binding": "role-bindings"}.get(self.module, self.module + "s")

    @property
    def info_key(self) -> str:
        return self.path.replace("-", "_")


# In this order each case can use the objects of the table below.
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("department", {"name": "research"}),
    ("project", {"name": "vision"}),
    ("user", {"username": "ada"}),
    ("user", {"username": "ci", "is_service": True}),
]
RESERVATION = {"pool": "default", "project": "vision", "gpu_count": 1, "allow_pending": True}
CASES = [
    Case("department", {"name": "physics"}),
    Case("project", {"name": "speech"}, {"department": "research"}),
    Case("site", {"name": "north", "notes": "Hall 1"}, {"notes": "Hall 2"}),
    Case("user", {"username": "grace"}, {"is_active": False}, filter="username"),
    Case("group", {"name": "researchers", "users": ["ada"]}, {"users": ["ci"]}),
    Case("role_binding", {"role": "user", "user": "ada", "project": "vision"}, filter="user"),
    Case("token", {"name": "pipeline", "user": "ci", "scopes": ["viewer"]}),
    Case(
        "quota",
        {"subject_kind": "project", "subject": "vision", "quota_gpus": 1.5},
        {"limit_gpus": 4},
        filter="subject",
    ),
    Case("reservation", {"name": "course", **RESERVATION, **TIMES}),
]


@pytest.fixture(scope="session")
def run_module(
    session_appliance: Appliance, collections: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Return a function that runs a module as an administrator and returns its JSON result."""
    connection = {
        "url": session_appliance.stack.url,
        "token": json.loads(session_appliance.context.read_text())["token"],
        "ca_file": str(session_appliance.stack.appliance_data / "ca.pem"),
    }
    arguments_file = tmp_path_factory.mktemp("modules") / "arguments.json"

    def run(module: str, check: bool = False, **arguments: Any) -> dict[str, Any]:
        options = {"_ansible_check_mode": check, "_ansible_diff": True}
        content = {"ANSIBLE_MODULE_ARGS": connection | arguments | options}
        arguments_file.write_text(json.dumps(content))
        program = f"ansible_collections.busbar.pool.plugins.modules.{module}"
        done = subprocess.run(
            [sys.executable, "-m", program, arguments_file],
            env=environment(collections, PYTHONPATH=str(collections)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    return run


@pytest.fixture(scope="session")
def objects(run_module: Run) -> None:
    for name, options in OBJECTS:
        result = run_module(name, **options)
        assert result.get("changed"), result


def apply_twice(run_module: Run, rows: Callable[[], Any], case: Case, **options: Any) -> Any:
    """Apply the options in check mode, then twice, and return the result of the first time."""
    before = rows()
    checked = run_module(case.module, check=True, **options)
    assert checked.get("changed") is True, checked
    assert rows() == before, "check mode must change nothing"
    first = run_module(case.module, **options)
    assert first.get("changed") is True and rows() != before, first
    assert first["diff"]["before"] != first["diff"]["after"]
    second = run_module(case.module, **options)
    assert second.get("changed") is False, second
    assert second["diff"]["before"] == second["diff"]["after"] == first["diff"]["after"]
    return first


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.module)
def test_module_creates_changes_and_deletes_once_with_check_mode_and_diff(
    session_appliance: Appliance, objects: None, run_module: Run, case: Case
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
        assert case.change.items() <= changed["diff"]["after"].items()
    deleted = apply_twice(run_module, rows, case, **case.create, state="absent")
    assert deleted["diff"]["after"] == {"state": "absent"}


def test_modules_return_a_secret_only_once(objects: None, run_module: Run) -> None:
    options = {"name": "once", "user": "ci"}
    created, again = run_module("token", **options), run_module("token", **options)
    assert created["token"]["token"] and "token" not in again["token"]
    assert "token" not in created["diff"]["after"]
    person, again = run_module("user", username="linus"), run_module("user", username="linus")
    assert person["user"]["one_time_password"] and "one_time_password" not in again["user"]


def test_errors_of_modules_say_what_to_do_next(objects: None, run_module: Run) -> None:
    service = run_module("user", username="ada", is_service=True)
    assert service["failed"] and "remove it with state=absent" in service["msg"]
    used = run_module("project", name="absent", department="nowhere")
    assert used["failed"] and used["code"] == "not_found", used
    assert run_module("role_binding", role="user")["failed"], "a user or a group is required"
