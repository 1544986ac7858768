"""Cost of reports of 1,500 sessions, compared with the charge to the budgets of nodes.

Usage: python -m tests.hardening.charges, with BUSBAR_DATA set to an empty folder

Prints one line of JSON: for each kind of report the processor time of gateway and controller, the
charge, and the number of parts. `measure` runs it in a process of its own.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import django

from deploy.supervisor import ROOT
from nodes.protocol import fleet_pb2, limits
from tests.load.results import result

FACTOR = 2.0
"""Between time and charge, at most, in both directions."""
SESSIONS = limits.MAX_SESSIONS
LOOP, LOOP_SECONDS = 1_000_000, 0.025
"""Additions in Python, and their processor time where the constants were measured. Times are scaled
by it: other machines are faster or slower."""


def scale() -> float:
    """Return how much slower this machine is than the one of the constants."""

    def add() -> float:
        begin, total = time.thread_time(), 0
        for i in range(LOOP):
            total += i
        return time.thread_time() - begin

    return min(add() for _ in range(5)) / LOOP_SECONDS


def make_node() -> tuple[Any, uuid.UUID]:
    """Create a node with one GPU. Return it with an allocation on it."""
    from django.core.management import call_command
    from rest_framework.test import APIClient

    from appliance.accounts.models import Project, Role, RoleBinding, User
    from appliance.accounts.services import token_create
    from appliance.inventory.reports import (
        ReportedGpu,
        ReportedNode,
        create_node,
        record_node_report,
    )
    from appliance.pools.services import ensure_default_pool
    from appliance.telemetry import reachability

    call_command("migrate", interactive=False, verbosity=0)
    ensure_default_pool()
    user = User.objects.create(username="alice")
    project, _ = Project.objects.get_or_create(name="default")
    RoleBinding.objects.create(user=user, project=project, role=Role.USER)
    node = create_node(name="node")
    gpu = ReportedGpu(uuid.uuid4(), 0, "GPU", 1 << 33, "12.0")
    endpoints = (("127.0.0.1", 1),)
    report = ReportedNode("1", "1", "test", True, "boot", endpoints, (gpu,))
    record_node_report(node_id=node.pk, report=report)
    reachability.record_heartbeat(node.pk)
    token = token_create(user=user, name="bench")[1]
    client = APIClient(headers={"authorization": f"Bearer {token}"})
    response = client.post("/api/v1/allocations", {}, format="json")
    return node, uuid.UUID(response.json()["id"])


def message_of(allocation: uuid.UUID, ids: list[bytes], counter: int) -> fleet_pb2.AgentMessage:
    sessions = [
        fleet_pb2.Session(
            id=i,
            allocation_id=allocation.bytes,
            state="running",
            pid=5,
            client_pid=6,
            client_address="10.0.0.1:40000",
            program="python train.py",
            isolation={"user": "enforced", "landlock": "enforced", "network": "enforced"},
            memory_bytes=counter << 20,
            launches=counter,
            bytes_in=counter,
            bytes_out=counter,
            opened_seconds=1_700_000_000,
            partition_bytes=[counter << 20],
        )
        for i in ids
    ]
    report = fleet_pb2.Report(generation=1, sessions=sessions)
    return fleet_pb2.AgentMessage(boot_id="b", sequence=counter, report=report)


def inventory_of(gpus: int, version: str) -> fleet_pb2.AgentMessage:
    reported = [
        fleet_pb2.Gpu(
            uuid=i.to_bytes(16),
            index=i,
            model=f"GPU {version}",
            memory_bytes=1 << 33,
            compute_capability="12.0",
        )
        for i in range(1, gpus + 1)
    ]
    inventory = fleet_pb2.Inventory(agent_version=version, gpus=reported)
    return fleet_pb2.AgentMessage(boot_id="b", sequence=1, inventory=inventory)


class Meter:
    """Applies messages as gateway and controller do, and adds up time and charge of each kind."""

    def __init__(self, node_id: uuid.UUID) -> None:
        self.node_id = node_id
        self.results: dict[str, dict[str, float]] = {}

    def gateway(self, encoded: bytes) -> tuple[bytes, int, float]:
        """Check a message. Return its report, the number of its sessions, and the charge."""
        from appliance.fleet.message_budget import work_of
        from appliance.fleet.message_check import check_message

        message = fleet_pb2.AgentMessage.FromString(encoded)
        check_message(message)
        report = message.report.SerializeToString(deterministic=True)
        return report, len(message.report.sessions), work_of(message)

    def apply_inventory(self, kind: str, gpus: int, version: str) -> None:
        """Report GPUs, each with this version in its model."""
        from appliance.fleet import reports
        from appliance.fleet.message_budget import work_of, work_of_part
        from appliance.fleet.message_check import check_message
        from appliance.inventory.reports import record_node_report

        encoded, begin = inventory_of(gpus, version).SerializeToString(), time.thread_time()
        message = fleet_pb2.AgentMessage.FromString(encoded)
        check_message(message)
        parsed = reports.parse_inventory(message)
        rows = record_node_report(node_id=self.node_id, report=parsed)
        seconds = time.thread_time() - begin
        charged = work_of(message) + work_of_part(rows)
        self.results[kind] = {"seconds": seconds, "charged": charged, "parts": 1}

    def apply(self, kind: str, message: fleet_pb2.AgentMessage) -> None:
        from appliance.fleet import reports
        from appliance.fleet.message_budget import work_of_part

        encoded, begin = message.SerializeToString(), time.thread_time()
        report, sessions, charged = self.gateway(encoded)
        position, parts, more = 0, 0, True
        while more:
            parsed = fleet_pb2.Report.FromString(report)
            rows, compared, position, more = reports.process_report(self.node_id, parsed, position)
            reads_all = position in (compared, sessions)
            charged += work_of_part(rows, compared, sessions if reads_all else 0)
            parts += 1
        seconds = time.thread_time() - begin
        self.results[kind] = {"seconds": seconds, "charged": charged, "parts": parts}


def run() -> dict[str, Any]:
    """Measure reports that open, change, repeat, invent and close sessions."""
    from appliance.allocations import sessions

    node, allocation = make_node()
    gc.collect()
    gc.disable()  # the controller has a policy of its own (ADR 12)
    meter, ids = Meter(node.pk), [uuid.uuid4().bytes for _ in range(SESSIONS)]
    meter.apply("first use", message_of(allocation, ids[:100], 1))  # compiles the statements
    del meter.results["first use"]
    meter.apply("opens", message_of(allocation, ids, 2))
    saved = dict.fromkeys((uuid.UUID(bytes=i) for i in ids), time.monotonic())
    sessions._counters_saved_at.update(saved)
    meter.apply("changes nothing", message_of(allocation, ids, 3))
    sessions._counters_saved_at.clear()
    meter.apply("counters", message_of(allocation, ids, 4))
    foreign = [uuid.uuid4().bytes for _ in range(SESSIONS // 2)]
    invented = message_of(uuid.uuid4(), foreign, 5)
    invented.report.sessions.extend(message_of(allocation, ids[: SESSIONS // 2], 5).report.sessions)
    meter.apply("invents half, closes half", invented)
    for gpus in (8, limits.MAX_GPUS):
        for _ in range(2):  # the second time without first uses
            meter.apply_inventory(f"{gpus} GPUs go", 0, f"none {gpus}")
            meter.apply_inventory(f"{gpus} GPUs come", gpus, "1")
            meter.apply_inventory(f"{gpus} GPUs change", gpus, "2")
            meter.apply_inventory(f"{gpus} GPUs do not change", gpus, "2")
    return {"scale": scale(), "kinds": meter.results}


def off_by(seconds: float, charged: float) -> float:
    """Return the factor between time and charge, at least 1."""
    return max(seconds / charged, charged / seconds)


def measure(folder: Path) -> list[dict[str, Any]]:
    """Return the largest factor between time and charge among the kinds of reports."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hardening.charges"],
        cwd=ROOT,
        env=os.environ
        | {"BUSBAR_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "appliance.settings"},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures = json.loads(done.stdout)
    factors = {
        kind: off_by(f["seconds"] / figures["scale"], f["charged"])
        for kind, f in figures["kinds"].items()
    }
    return [result("report_charge_factor", "x", max(factors.values()), FACTOR, more=figures)]


if __name__ == "__main__":
    django.setup()
    print(json.dumps(run()))
