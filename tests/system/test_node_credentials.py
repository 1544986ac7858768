"""Certificates of a running node: renewal, an outage longer than their lifetime, copies."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from nodes.credentials import load_credentials
from tests.ports import port
from tests.system.conftest import DEMO, Pool, started

pytestmark = [pytest.mark.system, pytest.mark.long]
LIFETIME_SECONDS = 9


@pytest.fixture(scope="module")
def module_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder, lifetime = tmp_path_factory.mktemp("stack"), str(LIFETIME_SECONDS)
    with started(folder, port(320), BUSBAR_NODE_CERTIFICATE_SECONDS=lifetime) as pool:
        yield pool


@pytest.fixture
def pool(module_pool: Pool) -> Iterator[Pool]:
    """The stack, whose node is unlocked after the test."""
    yield module_pool
    (node,) = module_pool.api.items("nodes")
    module_pool.api.request("POST", f"nodes/{node['id']}/unlock")
    module_pool.wait("the node", lambda: is_reachable(module_pool))


def certificate(pool: Pool) -> x509.Certificate:
    found = load_credentials(pool.stack.node.folder)
    assert found is not None
    return found.agent_certificate


def is_expired(pool: Pool) -> bool:
    found = load_credentials(pool.stack.node.folder)
    return found is not None and found.are_expired()


def is_reachable(pool: Pool) -> bool:
    return bool(pool.api.items("nodes")[0]["reachable"])


def test_program_runs_on_while_certificates_are_renewed(pool: Pool) -> None:
    program = pool.start_working(25, 2.5 * LIFETIME_SECONDS)
    serials = {certificate(pool).serial_number}

    def renewed_twice() -> bool:
        serials.add(certificate(pool).serial_number)
        return len(serials) > 2

    pool.wait("two renewals", renewed_twice)
    status, _, err = pool.finish(program)
    assert status == 0, err
    assert pool.api.items("nodes")[0]["locked_at"] is None
    status, _, err = pool.finish(pool.start(25, DEMO, "work", "0.2"))
    assert status == 0, f"the launcher has no valid certificate: {err}"


def test_node_returns_after_an_outage_longer_than_its_certificate(pool: Pool) -> None:
    agent = pool.stack.node.agent.process
    assert agent is not None
    os.kill(agent.pid, signal.SIGSTOP)
    pool.wait("the end of the certificate", lambda: is_expired(pool))
    pool.kill("agent")
    pool.wait("the renewal", lambda: not is_expired(pool))
    pool.wait("the node", lambda: is_reachable(pool))


def test_second_machine_with_copied_files_locks_the_node(pool: Pool, tmp_path: Path) -> None:
    machine = pool.stack.node
    copied = tmp_path / "copy"
    shutil.copytree(machine.folder, copied, symlinks=True)
    copy = type(machine)(copied, pool.stack, machine.service.port + 1, 2)
    copy.start()
    try:
        pool.wait("the lock", lambda: bool(pool.api.items("nodes")[0]["locked_at"]))
        assert pool.api.items("events", kind="node.locked")
    finally:
        copy.stop()


def unknown_token(pool: Pool) -> str:
    """Return a token with an unknown secret."""
    content = json.loads(base64.urlsafe_b64decode(pool.stack.manage("create_enrolment_token")))
    return base64.urlsafe_b64encode(json.dumps(content | {"secret": "x"}).encode()).decode()


def test_new_enrolment_replaces_the_identity_of_a_running_agent(pool: Pool) -> None:
    machine, (node,) = pool.stack.node, pool.api.items("nodes")
    with pytest.raises(SystemExit, match=f"(?s)unknown.*still node {node['name']}"):
        machine.enrol(unknown_token(pool))
    assert is_reachable(pool)
    machine.enrol(pool.api.request("POST", "enrolment-tokens", {"node_id": node["id"]})["token"])
    assert pool.api.items("events", kind="node.enrolled_again")
    pool.wait("the node", lambda: is_reachable(pool))
    assert [n["id"] for n in pool.api.items("nodes")] == [node["id"]]
