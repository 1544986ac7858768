"""Suspension of allocations over REST, with the reports of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from appliance.accounts.models import RoleBinding, User
from appliance.activity import tasks
from appliance.activity.models import Event, Task
from appliance.allocations import eviction, leases, lost_access, maintenance, scheduler
from appliance.allocations.allocation_views import read_state
from appliance.allocations.models import Allocation, Partition
from appliance.audit.models import AuditRecord
from appliance.backups import resumption
from appliance.fleet import reports
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.models import Gpu, Node
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.suspending_client import MIB, URL, Client, report

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: AddNode) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


def kinds(pk: str) -> list[str]:
    events = Event.objects.filter(object_id=pk).order_by("id")
    names = [e.removeprefix("allocation.") for e in events.values_list("kind", flat=True)]
    return names[names.index("active") + 1 :]


def wanted(node: Node) -> str:
    (grant,) = build_desired_state(node.pk).grants
    return str(grant.suspension)


def test_suspend_and_resume(alice: Client) -> None:
    pk = alice.allocate()
    begun = alice.post(pk, "suspend")
    assert begun["state"] == "active" and begun["suspension"]["state"] == "suspending"
    assert wanted(alice.node) == "suspend" and read_state(UUID(pk)) == "suspending"
    report(alice.node, pk, "suspending")
    assert alice.state(pk) == ("active", "suspending")
    report(alice.node, pk, "suspended", 300 * MIB)
    suspended = alice.read(pk)
    assert suspended["state"] == "suspended" and read_state(UUID(pk)) == "suspended"
    assert suspended["suspension"]["released_bytes"] == 300 * MIB
    assert wanted(alice.node) == "hold"
    alice.post(pk, "resume")
    assert alice.state(pk) == ("suspended", "resuming") and wanted(alice.node) == "resume"
    report(alice.node, pk, "resuming", 300 * MIB)
    assert alice.state(pk) == ("suspended", "resuming")
    report(alice.node, pk, "running")
    assert alice.state(pk) == ("active", None) and wanted(alice.node) == ""
    assert kinds(pk) == ["suspend_requested", "suspended", "resume_requested", "resumed"]
    actors = Event.objects.filter(kind__endswith="_requested").values_list("actor", flat=True)
    assert set(actors) == {"alice"}
    ended = Task.objects.filter(kind__in=["allocation.suspend", "allocation.resume"])
    assert [t.state for t in ended] == ["succeeded"] * 2


def test_suspended_allocation_keeps_gpus_fence_and_tickets(alice: Client) -> None:
    pk = alice.allocate()
    before = Allocation.objects.get(pk=pk)
    gpu = Gpu.objects.get()
    taken = gpu.taken_percent, gpu.taken_memory_bytes
    alice.post(pk, "suspend")
    report(alice.node, pk, "suspended", 300 * MIB)
    gpu.refresh_from_db()
    assert (gpu.taken_percent, gpu.taken_memory_bytes) == taken == (50, 5 * GIB)
    (grant,) = build_desired_state(alice.node.pk).grants
    assert (grant.fence_epoch, grant.fence_counter) == (before.fence_epoch, before.fence_counter)
    assert grant.partitions[0].memory_bytes == 5 * GIB
    waiting = body(alice.client.post(URL, {"percent": 60}, format="json"))
    assert waiting["state"] == "queued", "reserved memory was given away"
    key = {"client_public_key": "A" * 43 + "="}
    assert alice.client.post(f"{URL}/{pk}/tickets", key, format="json").status_code == 200


def test_call_of_a_program_resumes_the_allocation(alice: Client) -> None:
    pk = alice.suspended()
    report(alice.node, pk, "waiting", 300 * MIB, "Other sessions of the allocation use it.")
    waiting = alice.read(pk)["suspension"]
    assert waiting["state"] == "waiting" and waiting["reason"].startswith("Other sessions")
    report(alice.node, pk, "suspended", 300 * MIB)
    assert alice.state(pk) == ("suspended", "suspended")
    report(alice.node, pk, "running")
    assert alice.state(pk) == ("active", None) and wanted(alice.node) == ""
    resumed = Event.objects.get(object_id=pk, kind="allocation.resumed")
    assert resumed.actor == "system" and "A program has work" in resumed.message


@pytest.mark.parametrize(
    ("state", "reason"), [("failed", "train: a stream has work"), ("running", "")], ids=str
)
def test_failure_resumes_what_was_suspended(alice: Client, state: str, reason: str) -> None:
    pk = alice.allocate()
    alice.post(pk, "suspend")
    report(alice.node, pk, state, 0, reason)
    assert alice.state(pk) == ("active", "resuming") and wanted(alice.node) == "resume"
    report(alice.node, pk, "running", lag=1)
    assert alice.state(pk) == ("active", "resuming"), "a report of the old revision counted"
    report(alice.node, pk, "running")
    suspension = alice.read(pk)["suspension"]
    assert suspension["state"] == "failed" and suspension["reason"] == (
        reason or "a program has work"
    )
    task = Task.objects.get(kind="allocation.suspend")
    assert task.state == "failed" and wanted(alice.node) == ""
    assert kinds(pk) == ["suspend_requested", "suspend_failed"]
    alice.post(pk, "suspend")
    assert alice.read(pk)["suspension"]["reason"] == ""


def test_resume_abandons_a_suspension_in_progress(alice: Client) -> None:
    pk = alice.allocate()
    alice.post(pk, "suspend")
    alice.post(pk, "resume")
    report(alice.node, pk, "suspended", 1, lag=1)
    assert alice.state(pk) == ("active", "resuming"), "a report of the old request counted"
    report(alice.node, pk, "running")
    assert alice.state(pk) == ("active", None)
    assert kinds(pk) == ["suspend_requested", "resume_requested"]


def test_cancelled_task_resumes(alice: Client) -> None:
    pk = alice.allocate()
    alice.post(pk, "suspend")
    task = Task.objects.get(kind="allocation.suspend")
    cancelled = alice.client.post(f"/api/v1/tasks/{task.pk}/cancel")
    assert cancelled.status_code == 200, cancelled.content
    assert alice.state(pk) == ("active", "resuming")


def test_all_nodes_must_report(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    alice = Client(client_of(cast.alice), add_node(), add_node())
    pk = alice.allocate(gpu_count=2)
    assert Partition.objects.filter(allocation_id=pk).values("gpu__node").distinct().count() == 2
    alice.post(pk, "suspend")
    report(alice.nodes[0], pk, "suspended", 5 * MIB)
    assert alice.state(pk) == ("active", "suspending")
    report(alice.nodes[1], pk, "suspended", 7 * MIB)
    assert alice.read(pk)["suspension"]["released_bytes"] == 12 * MIB
    report(alice.nodes[1], pk, "running")
    assert alice.state(pk) == ("active", None)


def test_node_speaks_only_for_its_own_allocations(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    alice = Client(client_of(cast.alice), add_node())
    pk = alice.allocate()
    alice.post(pk, "suspend")
    report(add_node(), pk, "suspended", 300 * MIB)
    assert Allocation.objects.get(pk=pk).suspension_reports == {}
    assert alice.state(pk) == ("active", "suspending")


def test_refusals(alice: Client, cast: Cast, client_of: Clients) -> None:
    pk = alice.allocate()
    assert "not suspended" in alice.post(pk, "resume", 409)["detail"]
    alice.post(pk, "suspend", 412, {"If-Match": '"77"'})
    Client(client_of(cast.bob), alice.node).post(pk, "suspend", 403)
    Node.objects.update(suspends_sessions=False)
    old = alice.post(pk, "suspend", 409)
    assert old["code"] == "not_supported" and "Update its agent" in old["detail"]
    assert Allocation.objects.get(pk=pk).suspension == ""
    Node.objects.update(suspends_sessions=True)
    alice.post(pk, "suspend")
    assert "is suspending" in alice.post(pk, "suspend", 409)["detail"]
    alice.post(pk, "resume")
    assert "resuming already" in alice.post(pk, "resume", 409)["detail"]
    assert "is resuming" in alice.post(pk, "suspend", 409)["detail"]
    waiting = body(alice.client.post(URL, {"percent": 60}, format="json"))["id"]
    assert "is queued" in alice.post(waiting, "suspend", 409)["detail"]
    assert alice.client.patch(f"{URL}/{alice.suspended(percent=5)}", {"percent": 6},
                              format="json").status_code == 409  # fmt: skip


def test_repeated_key_suspends_once(alice: Client) -> None:
    pk = alice.allocate()
    first = alice.post(pk, "suspend", headers={"Idempotency-Key": "k"})
    assert alice.post(pk, "suspend", headers={"Idempotency-Key": "k"}) == first
    assert Allocation.objects.get(pk=pk).suspension_revision == 1


def test_dry_run_changes_nothing(alice: Client) -> None:
    pk = alice.allocate()
    shown = alice.client.post(f"{URL}/{pk}/suspend?dry_run=true")
    assert body(shown)["suspension"]["state"] == "suspending"
    assert alice.state(pk) == ("active", None)


def test_actions_of_the_object_and_audit(alice: Client) -> None:
    def offered(pk: str) -> set[str]:
        names = {a["name"] for a in alice.read(pk)["actions"] if a["allowed"]}
        return names & {"suspend", "resume", "resize", "release"}

    pk = alice.allocate()
    assert offered(pk) == {"suspend", "resize", "release"}
    alice.post(pk, "suspend")
    report(alice.node, pk, "suspended")
    assert offered(pk) == {"resume", "release"}
    record = AuditRecord.objects.filter(object_id=pk).latest("pk")
    assert record.actor == "alice" and record.after["suspension"] == "suspending"


def ends_by(alice: Client, pk: str) -> str:
    """Report the end of a releasing allocation and return its reason."""
    row = alice.read(pk)
    assert row["state"] == "releasing" and row["suspension"] is None
    (desired,) = [build_desired_state(n.pk).grants for n in alice.nodes]
    assert not desired
    report(alice.node)
    assert alice.read(pk)["state"] == "released"
    gpu = Gpu.objects.get()
    assert (gpu.taken_percent, gpu.taken_memory_bytes) == (0, 0)
    return str(row["end_reason"])


@pytest.mark.parametrize("step", ["suspending", "suspended", "resuming"])
def test_release_ends_each_step(alice: Client, step: str) -> None:
    pk = alice.allocate()
    alice.post(pk, "suspend")
    if step != "suspending":
        report(alice.node, pk, "suspended", 300 * MIB)
    if step == "resuming":
        alice.post(pk, "resume")
    assert alice.client.delete(f"{URL}/{pk}").status_code == 202
    assert ends_by(alice, pk) == "released by alice"
    running = Task.objects.filter(kind__in=["allocation.suspend", "allocation.resume"])
    assert not running.filter(state="running").exists()


def test_lifetime_runs_on(alice: Client) -> None:
    pk = alice.suspended(lifetime_seconds=600)
    eviction.evict_expired()
    assert alice.state(pk) == ("suspended", "suspended")
    Allocation.objects.filter(pk=pk).update(active_at=timezone.now() - timedelta(seconds=601))
    eviction.evict_expired()
    assert ends_by(alice, pk) == "lifetime of 600 s exceeded"


def test_lease_must_be_renewed(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    pk = alice.suspended()
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: 1e6)
    eviction.evict_expired()
    assert ends_by(alice, pk).startswith("no session and no heartbeat")


def test_drain_announces_the_end_and_its_cancellation_withdraws_it(
    alice: Client, cast: Cast
) -> None:
    pk = alice.suspended()
    drain = {"node_id": alice.node.pk, "grace_seconds": 60, "initiator": cast.olga}
    maintenance.enter_maintenance(**drain)  # type: ignore[arg-type]
    assert alice.read(pk)["evict_at"] is not None
    maintenance.exit_maintenance(node_id=alice.node.pk, actor="olga")
    assert alice.read(pk)["evict_at"] is None and alice.state(pk)[0] == "suspended"
    alice.node.refresh_from_db()
    maintenance.enter_maintenance(**drain | {"grace_seconds": 0})  # type: ignore[arg-type]
    assert ends_by(alice, pk).startswith("maintenance of node")


def test_lost_access_ends_it(alice: Client, cast: Cast) -> None:
    pk = alice.suspended()
    RoleBinding.objects.filter(user=cast.alice).delete()
    lost_access.evict_without_access()
    assert Allocation.objects.get(pk=pk).state == "releasing"


def test_resize_that_waits_goes_on_after_the_resumption(alice: Client) -> None:
    other = alice.allocate(percent=50)
    pk = alice.allocate(percent=50)
    alice.client.patch(f"{URL}/{pk}", {"percent": 60}, format="json")
    alice.post(pk, "suspend")
    report(alice.node, pk, "suspended")
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert alice.read(pk)["partitions"][0]["compute_percent"] == 50
    report(alice.node, pk, "running")
    scheduler.run_tick()
    assert alice.read(pk)["partitions"][0]["compute_percent"] == 60


def test_resize_that_waits_is_withdrawn_while_the_allocation_is_suspended(alice: Client) -> None:
    other, pk = alice.allocate(percent=50), alice.allocate(percent=50)
    url = f"{URL}/{pk}"
    alice.client.patch(url, {"percent": 60}, format="json")
    alice.post(pk, "suspend")
    report(alice.node, pk, "suspended")
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    suspended = alice.read(pk)
    assert suspended["resize"]["reason"] == "The resize waits until the allocation is resumed."
    assert "resize" in {a["name"] for a in suspended["actions"] if a["allowed"]}
    refused = alice.client.patch(url, {"percent": 55}, format="json")
    assert refused.status_code == 409 and "is suspended" in body(refused)["detail"]
    assert alice.client.patch(url, {"percent": 50}, format="json").status_code == 202
    withdrawn = alice.read(pk)
    assert withdrawn["resize"] is None and withdrawn["waiting_reason"] == ""
    assert withdrawn["state"] == "suspended" and withdrawn["percent"] == 50
    report(alice.node, pk, "running")
    scheduler.run_tick()
    assert alice.read(pk)["partitions"][0]["compute_percent"] == 50


def test_size_stays_from_the_request_to_suspend_until_the_allocation_is_active(
    alice: Client,
) -> None:
    """A smaller size would give memory away that its programs need when they go on."""
    other = alice.allocate(percent=40)
    pk = alice.allocate(percent=60, memory_bytes=6 * GIB)
    alice.client.patch(f"{URL}/{pk}", {"percent": 70, "memory_bytes": GIB}, format="json")
    alice.post(pk, "suspend")
    refused = alice.client.patch(f"{URL}/{pk}", {"memory_bytes": GIB}, format="json")
    assert refused.status_code == 409 and "is suspending" in body(refused)["detail"]
    assert "withdraw the resize" in body(refused)["detail"]
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert alice.read(pk)["partitions"][0]["memory_bytes"] == 6 * GIB
    report(alice.node, pk, "suspended")
    report(alice.node, pk, "running")
    scheduler.run_tick()
    assert alice.read(pk)["partitions"][0]["memory_bytes"] == GIB


def test_allocation_that_must_free_memory_is_not_suspended(alice: Client) -> None:
    """Its suspension would free it, and its programs would wait for it for ever."""
    pk = alice.allocate(percent=60)
    alice.client.patch(f"{URL}/{pk}", {"percent": 20}, format="json")
    report(alice.node, over={pk: [5 * GIB]})
    assert "3072 MiB beyond its size" in alice.post(pk, "suspend", 409)["detail"]
    reports.record_applied(alice.node.pk, alice.node.generation, over={})
    alice.post(pk, "suspend")


def test_node_cannot_fill_the_log_of_a_resumption(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_LINES", 3)
    pk = alice.suspended()
    alice.post(pk, "resume")
    for number in range(6):
        report(alice.node, pk, "waiting", reason=f"reason {number}")
    task = Task.objects.get(kind="allocation.resume")
    assert task.lines.count() == 3 and task.message == "reason 5"


def test_node_is_charged_for_what_its_reports_of_suspensions_change(alice: Client) -> None:
    pk = alice.suspended()
    quiet = report(alice.node, pk, "suspended", 300 * MIB)
    changing = report(alice.node, pk, "suspended", 301 * MIB)
    toggling = report(alice.node, pk, "waiting", 301 * MIB)
    assert quiet.rows == 0 < changing.rows < toggling.rows


def test_restored_appliance_ignores_reports_of_the_time_after_its_backup(alice: Client) -> None:
    pk = alice.allocate()
    alice.post(pk, "suspend")
    resumption.resume(backup="0123abcd", created_at=timezone.now())
    report(alice.node, pk, "suspended", 300 * MIB, lag=resumption.LEAP - 1)
    assert alice.state(pk) == ("active", "suspending")
    report(alice.node, pk, "suspended", 300 * MIB)
    assert alice.state(pk) == ("suspended", "suspended")
