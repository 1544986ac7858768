"""Rotation of the CA and of the ticket key with agents of other nodes and a running program."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deploy.supervisor import ROOT
from nodes.credentials import load_credentials
from nodes.enrolment import enrol
from remoting.cli.run_command import LeaseKeeper, environment
from remoting.cli.ticket_file import TicketFile
from tests.ports import port
from tests.system.conftest import DEMO, Pool, started

pytestmark = [pytest.mark.system, pytest.mark.long]
LIMIT_SECONDS = 300.0
TICKET_SECONDS = 300


@dataclass
class Fleet:
    """The stack with a real node, and the agents of other nodes."""

    pool: Pool
    folder: Path
    log: Path

    def nodes(self) -> list[Path]:
        return [*sorted(self.folder.iterdir()), self.pool.stack.node.folder]

    def trusted(self) -> set[tuple[str, ...]]:
        """Return the CAs that nodes trust, as fingerprints."""
        found = [load_credentials(node) for node in self.nodes()]
        return {tuple(a.hex() for a in c.authorities) for c in found if c is not None}

    def lost_connections(self) -> list[str]:
        """Return the lines of agents whose streams ended although they did not end them."""
        logs = (self.log, self.pool.stack.logs / "agent.log")
        lines = "\n".join(log.read_text() for log in logs if log.exists()).splitlines()
        return [line for line in lines if "unreachable" in line]

    def rotation(self, kind: str) -> dict[str, Any]:
        return self.pool.api.request("GET", f"key-rotations/{kind}")

    def keys(self, kind: str) -> list[str]:
        return [key["fingerprint"] for key in self.rotation(kind)["keys"]]

    def wait_for_phase(self, kind: str, *phases: str) -> str:
        self.pool.wait(
            f"the phase {phases} of {kind}",
            lambda: self.rotation(kind)["phase"] in phases,
            LIMIT_SECONDS,
        )
        return str(self.rotation(kind)["phase"])


@contextmanager
def agents_of(folder: Path, log: Path) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.agent_fleet", str(folder)],
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module", params=[50])
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("stack")
    with started(folder, port(400)) as pool:
        nodes, agents = folder / "nodes", request.param
        for number in range(agents):
            token = pool.api.request("POST", "enrolment-tokens")["token"]
            enrol(nodes / f"{number:02}", token)
        with agents_of(nodes, folder / "agents.log"):
            fleet = Fleet(pool, nodes, folder / "agents.log")
            pool.wait(
                "the agents",
                lambda: pool.api.request("GET", "appliance")["reachable_nodes"] == agents + 1,
                LIMIT_SECONDS,
            )
            yield fleet


def write_ticket_file(pool: Pool) -> tuple[str, TicketFile]:
    """Allocate a share and write a ticket for it. Return the allocation's id and the file."""
    allocation = pool.api.request("POST", "allocations", {"name": "ticket", "percent": 10})
    path = f"allocations/{allocation['id']}"
    pool.wait("the allocation", lambda: pool.api.request("GET", path)["state"] == "active")
    keeper = LeaseKeeper(pool.api, allocation["id"], TicketFile())
    keeper.write_ticket()
    return allocation["id"], keeper.file


def ticket_works(pool: Pool, allocation_id: str, file: TicketFile) -> bool:
    pool.api.request("POST", f"allocations/{allocation_id}/heartbeat")
    env = environment(file.path, software=True)
    return subprocess.run([DEMO], env=env, capture_output=True, check=False).returncode == 0


def move_phase_back(pool: Pool, kind: str, seconds: float) -> None:
    """Let the phase have begun earlier."""
    with sqlite3.connect(pool.stack.appliance_data / "control.db", timeout=60) as database:
        database.execute(
            "UPDATE keys_keyset SET phase_since = strftime('%Y-%m-%d %H:%M:%f', phase_since, ?)"
            " WHERE kind = ?",
            (f"-{seconds} seconds", kind),
        )
    database.close()


def start(fleet: Fleet, kind: str) -> None:
    """Start a rotation whose first phase waits for the nodes only."""
    fleet.pool.api.request("POST", f"key-rotations/{kind}/start", {"hold_seconds": 0})
    if kind == "ca":
        move_phase_back(fleet.pool, kind, TICKET_SECONDS)


def test_rotation_of_the_ca_disturbs_no_stream_and_no_program(fleet: Fleet) -> None:
    pool = fleet.pool
    program = pool.start_working(25, 600)
    pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)
    before, (session,) = fleet.keys("ca"), pool.sessions(state="running")
    lost = len(fleet.lost_connections())
    start(fleet, "ca")
    assert fleet.wait_for_phase("ca", "idle") == "idle"
    after = fleet.keys("ca")
    assert len(after) == 1 and after != before
    pool.wait("only the new CA", lambda: fleet.trusted() == {tuple(after)}, LIMIT_SECONDS)
    assert [s["id"] for s in pool.sessions(state="running")] == [session["id"]]
    assert program.poll() is None
    assert fleet.lost_connections()[lost:] == []
    program.kill()
    issued = x509.load_pem_x509_certificate(
        (pool.stack.node.folder / "current" / "launcher.pem").read_bytes()
    )
    served = x509.load_pem_x509_certificate((pool.stack.appliance_data / "ca.pem").read_bytes())
    issued.verify_directly_issued_by(served)
    assert served.fingerprint(hashes.SHA256()).hex() == after[0]


def test_stored_context_of_a_client_follows_the_ca(fleet: Fleet) -> None:
    pool = fleet.pool
    variables = os.environ | {"BUSBAR_CONTEXT": str(pool.context), "PYTHONPATH": str(ROOT)}

    def busbar(*arguments: str) -> str:
        line = [sys.executable, "-m", "remoting.cli.main", *arguments]
        done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    busbar("ca", "rotate", "--hold", "1h")
    assert json.loads(busbar("ca", "status", "-o", "json"))["phase"] == "distribute"

    def stored() -> int:
        busbar("ca", "status")  # its response names the CAs
        pem = json.loads(pool.context.read_text())["ca_pem"]
        return len(x509.load_pem_x509_certificates(pem.encode()))

    pool.wait("two stored CAs", lambda: stored() == 2)  # files follow within about a second
    pool.wait("the nodes", lambda: fleet.rotation("ca")["pending_nodes"] == [], LIMIT_SECONDS)
    busbar("ca", "advance", "--force", "--yes")
    fleet.wait_for_phase("ca", "idle")
    assert json.loads(busbar("ca", "status", "-o", "json"))["phase"] == "idle"


def test_ticket_of_the_old_key_works_until_the_stated_time(fleet: Fleet) -> None:
    pool = fleet.pool
    before, allocation = fleet.keys("ticket-key"), write_ticket_file(pool)
    start(fleet, "ticket-key")
    fleet.wait_for_phase("ticket-key", "use")
    assert ticket_works(pool, *allocation)
    move_phase_back(pool, "ticket-key", TICKET_SECONDS - 60)
    assert ticket_works(pool, *allocation)
    assert fleet.rotation("ticket-key")["phase"] == "use"
    move_phase_back(pool, "ticket-key", 61)
    fleet.wait_for_phase("ticket-key", "idle")
    pool.wait("the refusal", lambda: not ticket_works(pool, *allocation), LIMIT_SECONDS)
    assert fleet.keys("ticket-key") != before
    pool.api.request("DELETE", f"allocations/{allocation[0]}")
    other = write_ticket_file(pool)
    assert ticket_works(pool, *other)
    pool.api.request("DELETE", f"allocations/{other[0]}")


def test_aborted_rotation_returns_to_the_previous_ca(fleet: Fleet) -> None:
    before = fleet.keys("ca")
    start(fleet, "ca")
    fleet.wait_for_phase("ca", "use")
    fleet.pool.api.request("POST", "key-rotations/ca/abort")
    fleet.wait_for_phase("ca", "idle")
    assert fleet.keys("ca") == before
    fleet.pool.wait("the CA", lambda: fleet.trusted() == {tuple(before)}, LIMIT_SECONDS)


@pytest.mark.parametrize("kind", ["ca", "ticket-key"])
def test_rotation_continues_after_kill_9_in_each_phase(fleet: Fleet, kind: str) -> None:
    pool, before = fleet.pool, fleet.keys(kind)
    program = pool.start_working(25, 600)
    start(fleet, kind)
    pool.kill("appliance")
    fleet.wait_for_phase(kind, "use")
    pool.kill("appliance")
    move_phase_back(pool, kind, TICKET_SECONDS)
    fleet.wait_for_phase(kind, "idle")
    pool.kill("appliance")
    pool.wait("the appliance", lambda: fleet.rotation(kind)["phase"] == "idle", LIMIT_SECONDS)
    assert len(fleet.keys(kind)) == 1 and fleet.keys(kind) != before
    assert program.poll() is None
    program.kill()


def test_secrets_of_a_rotation_are_private_and_in_no_log_or_event(fleet: Fleet) -> None:
    data = fleet.pool.stack.appliance_data
    secrets = [*data.glob("ca*.key"), *data.glob("ticket_key*")]
    assert len(secrets) == 2 and all(path.stat().st_mode & 0o777 == 0o600 for path in secrets)
    events = fleet.pool.api.items("events")
    assert {"ca.rotation_started", "ca.rotation_switched", "ca.rotation_finished"} <= {
        event["kind"] for event in events
    }
    stored = json.dumps(events) + "".join(
        log.read_text(errors="replace") for log in fleet.pool.stack.logs.iterdir()
    )
    key = next(data.glob("ticket_key*")).read_bytes()
    Ed25519PrivateKey.from_private_bytes(key)
    assert "PRIVATE KEY" not in stored
    assert key.hex() not in stored and base64.b64encode(key).decode() not in stored
