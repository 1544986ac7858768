"""Objects of project chemistry that people of other projects try to reach."""

from __future__ import annotations

import subprocess
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.system.department.conftest import HELD, PASSWORD, Department

OWNER = "gustav"
NAME = "catalyst-7f3a"
WAITING_NAME = "solvent-19c2"
RESERVATION = "spectrometer-day"


@dataclass
class Chemistry:
    ids: dict[str, str] = field(default_factory=dict)
    """Ids by path parameter. `object_id` stands for several kinds; see `object_ids`."""
    object_ids: dict[str, str] = field(default_factory=dict)
    """Ids of objects with metrics, by collection."""
    other_ids: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    """Names that only members of the project may read."""

    @property
    def secrets(self) -> set[str]:
        ids = {*self.ids.values(), *self.object_ids.values(), *self.other_ids}
        return self.texts | ids


def work_in_chemistry(department: Department) -> subprocess.Popen[bytes]:
    """Let the owner run a program, as the guide shows it. Returns the process."""
    desk = department.desk
    desk.passwords[OWNER] = [PASSWORD]
    url, fingerprint = department.stack.url, department.stack.ca_fingerprint()
    done = desk.run(OWNER, f"busbar login {url} --ca-sha256 {fingerprint} --username {OWNER}")
    assert done.returncode == 0, done.stderr
    held = department.allocate(OWNER, "chemistry", percent=20, name=NAME)
    program = "build/remoting/demo/gpu_demo work 600 200"  # pauses of 200 ms
    command = f"exec busbar allocation attach {held['id']} -- {program}"
    return subprocess.Popen(
        ["/bin/bash", "-c", command],
        env=desk.environment(OWNER),
        cwd=desk.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def objects_of_chemistry(department: Department) -> Chemistry:
    """Make an object of each kind that belongs to the project, and find those that exist."""
    admin, owner = department.api("admin"), department.api(OWNER)
    queued = request_with_an_alarm(admin, owner)
    project = admin.items("projects", name="chemistry")[0]
    department.wait("the session", lambda: bool(owner.items("sessions", state="running")))
    department.wait("the alarm", lambda: bool(owner.items("alarms", object_id=queued["id"])), 60)
    session = owner.items("sessions", state="running")[0]
    user = admin.items("users", username=OWNER)[0]
    group = admin.items("groups", name="chemists")[0]
    found = Chemistry()
    found.ids = {
        "allocation_id": session["allocation_id"],
        "session_id": session["id"],
        "task_id": owner.items("tasks", state="running")[0]["id"],
        "project_id": project["id"],
        "quota_id": next(q for q in admin.items("quotas") if q["subject"] == "chemistry")["id"],
        "reservation_id": reserve(admin)["id"],
        "token_id": owner.items("tokens")[0]["id"],
        "user_id": user["id"],
        "group_id": group["id"],
        "member_id": admin.items(f"groups/{group['id']}/members")[0]["id"],
        "binding_id": owner_bindings(admin)[0]["id"],
        "alarm_id": owner.items("alarms", object_id=queued["id"])[0]["id"],
        "record_id": audit_record(admin, project["id"])["id"],
    }
    partition = owner.items("partitions", allocation_id=session["allocation_id"])[0]
    found.object_ids = {
        "partitions": partition["id"],
        "sessions": session["id"],
        "projects": project["id"],
    }
    found.texts = {NAME, WAITING_NAME, RESERVATION, OWNER, "chemistry", "chemists"}
    found.other_ids.add(queued["id"])
    return found


def request_with_an_alarm(admin: Any, owner: Any) -> dict[str, Any]:
    """Queue a request that waits so long that an alarm is raised."""
    definition = {
        "name": f"waits-{uuid.uuid4().hex}",
        "severity": "info",
        "object_kind": "allocation",
        "condition": "queue_wait",
        "threshold": 1,
    }
    admin.request("POST", "alarm-definitions", definition)
    waiting = {"gpu_count": 2, "name": WAITING_NAME, "allow_pending": True, **HELD}
    waiting |= {"project": "chemistry"}
    queued: dict[str, Any] = owner.request("POST", "allocations", waiting)
    return queued


def reserve(admin: Any) -> dict[str, Any]:
    begin = time.time() + 40 * 86_400
    times = {
        name: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        for name, at in (("starts_at", begin), ("ends_at", begin + 3600))
    }
    body: dict[str, Any] = {"name": RESERVATION, "pool": "default", "project": "chemistry"}
    body |= {"gpu_count": 1, "allow_pending": True}
    made: dict[str, Any] = admin.request("POST", "reservations", body | times)
    return made


def owner_bindings(admin: Any) -> list[dict[str, Any]]:
    return [b for b in admin.items("role-bindings") if b["project"] == "chemistry"]


def audit_record(admin: Any, project_id: str) -> dict[str, Any]:
    found: dict[str, Any] = admin.items("audit", object_id=project_id)[0]
    return found
