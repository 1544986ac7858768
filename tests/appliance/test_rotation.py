"""Phases of the rotation of the CA and of the ticket key, over REST."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from django.conf import LazySettings
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.allocations.tickets import accepted_keys, signing_key
from appliance.api.authorities_header import AUTHORITIES_HEADER
from appliance.fleet import auth, rotation
from appliance.fleet.authorities import authorities
from appliance.fleet.certificates import server_certificate
from appliance.fleet.desired_state import build_desired_state
from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Node
from appliance.keys.models import KeyKind, KeySet, Phase
from nodes.enrolment import NewKeys
from tests.appliance.conftest import Cast, body
from tests.appliance.test_certificate_renewal import Machine

pytestmark = pytest.mark.django_db
Clients = Callable[[User | None], Any]


@pytest.fixture(autouse=True)
def data(cast: Cast, settings: LazySettings, tmp_path: Path) -> Path:
    """A data folder of the test's own, with a CA and a server certificate."""
    settings.DATA_DIR = tmp_path
    signing_key()
    rotation.update_files()
    server_certificate(authorities()[0], tmp_path, ["localhost"])
    return tmp_path


@pytest.fixture
def admin(cast: Cast, client_of: Clients) -> Any:
    return client_of(cast.admin)


def act(admin: Any, kind: str, action: str, **content: object) -> dict[str, Any]:
    path = f"/api/v1/key-rotations/{kind}/{action}"
    found: dict[str, Any] = body(admin.post(path, content, format="json"))
    return found


def move_back(seconds: float = 300) -> None:
    for row in KeySet.objects.all():
        KeySet.objects.filter(pk=row.pk).update(
            phase_since=row.phase_since - timedelta(seconds=seconds)
        )


def phase(kind: str = "ca") -> str:
    return KeySet.objects.get(pk=kind).phase


def renew(machine: Machine) -> None:
    """Renew the certificates of a machine and use the new one."""
    NodeCertificate.objects.update(created_at=timezone.now() - timedelta(hours=1))
    keys = NewKeys()
    path = "/api/v1/certificate-renewals"
    machine.content = body(machine.client.post(path, machine.request(keys), format="json"))
    machine.keys = keys
    auth.admit_agent(machine.serial)


def issuer(machine: Machine) -> x509.Name:
    return x509.load_pem_x509_certificate(machine.content["agent_pem"].encode()).issuer


def fingerprints(pem: str) -> list[str]:
    found = x509.load_pem_x509_certificates(pem.encode())
    return [c.fingerprint(hashes.SHA256()).hex() for c in found]


def test_ca_is_distributed_used_and_alone_when_the_node_has_followed(
    admin: Any, client_of: Clients, data: Path
) -> None:
    machine = Machine(client_of(None))
    auth.admit_agent(machine.serial)
    before = authorities()[0]
    shown = act(admin, "ca", "start", hold_seconds=0)
    assert shown["phase"] == "distribute" and shown["pending_nodes"] == [machine.node.name]
    new = next(key["fingerprint"] for key in shown["keys"] if not key["signs"])
    assert [a.hex() for a in build_desired_state(machine.node.pk).authorities] == [
        before.fingerprint,
        new,
    ]
    move_back()
    rotation.follow_rotations()
    assert phase() == "distribute", "the node has not followed"
    renew(machine)
    assert fingerprints(machine.content["ca_pem"]) == [before.fingerprint, new]
    assert issuer(machine) == before.certificate.subject
    rotation.follow_rotations()
    assert phase() == "use"
    rotation.follow_rotations()
    assert phase() == "use" and authorities()[0].fingerprint == new
    renew(machine)
    assert issuer(machine) == authorities()[0].certificate.subject
    rotation.follow_rotations()
    assert phase() == "use", "the server's certificate is still of the old CA"
    server_certificate(authorities()[0], data, ["localhost"])
    rotation.follow_rotations()
    assert phase() == "idle"
    assert [a.fingerprint for a in authorities()] == [new]
    assert fingerprints((data / "ca.pem").read_text()) == [new]
    assert len(list(data.glob("ca*.key"))) == 1
    auth.admit_agent(machine.serial)
    renew(machine)
    assert fingerprints(machine.content["ca_pem"]) == [new]


def test_distribution_of_a_ca_lasts_as_long_as_a_ticket(admin: Any) -> None:
    act(admin, "ca", "start", hold_seconds=0)
    rotation.follow_rotations()
    assert phase() == "distribute"
    move_back(299)
    rotation.follow_rotations()
    assert phase() == "distribute"
    move_back(2)
    rotation.follow_rotations()
    assert phase() == "use"


def test_forced_end_names_and_refuses_the_nodes_that_have_not_followed(
    admin: Any, client_of: Clients, data: Path
) -> None:
    machine = Machine(client_of(None))
    auth.admit_agent(machine.serial)
    act(admin, "ca", "start")
    refused = act(admin, "ca", "advance")
    assert refused["code"] == "conflict" and machine.node.name in refused["detail"]
    act(admin, "ca", "advance", force=True)
    server_certificate(authorities()[0], data, ["localhost"])
    act(admin, "ca", "advance", force=True)
    assert phase() == "idle"
    finished = Event.objects.get(kind="ca.rotation_finished")
    assert machine.node.name in finished.message and finished.actor == "admin"
    with pytest.raises(Exception, match="enrol the machine again"):
        auth.admit_agent(machine.serial)
    refusal = machine.client.post(
        "/api/v1/certificate-renewals", machine.request(NewKeys()), format="json"
    )
    assert refusal.status_code == 401


def test_aborted_rotation_returns_to_the_previous_ca(
    admin: Any, client_of: Clients, data: Path
) -> None:
    machine = Machine(client_of(None))
    auth.admit_agent(machine.serial)
    before = authorities()[0].fingerprint
    act(admin, "ca", "start")
    act(admin, "ca", "advance", force=True)
    renew(machine)
    assert act(admin, "ca", "abort")["phase"] == "roll_back"
    rotation.follow_rotations()
    assert phase() == "roll_back", "the node has a certificate of the CA that goes"
    renew(machine)
    rotation.follow_rotations()
    assert phase() == "idle" and [a.fingerprint for a in authorities()] == [before]
    auth.admit_agent(machine.serial)
    assert len(list(data.glob("ca*.key"))) == 1


def test_old_ticket_key_is_accepted_as_long_as_its_tickets_are_valid(
    admin: Any, add_node: Callable[..., Node]
) -> None:
    node, old = add_node(), signing_key()
    act(admin, "ticket-key", "start")
    assert signing_key() == old and len(accepted_keys()) == 2
    rotation.follow_rotations()
    assert phase("ticket-key") == "distribute", "the node has not applied the next key"
    follow(node)
    rotation.follow_rotations()
    new = signing_key()
    assert phase("ticket-key") == "use" and new != old and old in accepted_keys()
    follow(node)
    move_back(299)
    rotation.follow_rotations()
    assert old.key_id in {key.id for key in build_desired_state(node.pk).ticket_keys}
    move_back(2)
    rotation.follow_rotations()
    assert [key.id for key in build_desired_state(node.pk).ticket_keys] == [new.key_id]


def follow(node: Node) -> None:
    node.refresh_from_db()
    Node.objects.filter(pk=node.pk).update(applied_generation=node.generation)


def test_only_one_rotation_of_a_kind_runs(admin: Any) -> None:
    act(admin, "ca", "start")
    assert act(admin, "ca", "start")["code"] == "conflict"
    assert act(admin, "ticket-key", "start")["phase"] == "distribute"
    assert act(admin, "tickets", "start")["code"] == "not_found"
    assert act(admin, "ticket-key", "abort")["phase"] == "roll_back"
    assert act(admin, "ticket-key", "abort")["code"] == "conflict"


@pytest.mark.parametrize("kind", list(KeyKind))
def test_key_of_a_start_that_did_not_commit_is_deleted(
    admin: Any, data: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind
) -> None:
    pattern = rotation.FILE[kind].format("*")
    before = {path: path.read_bytes() for path in data.glob(pattern)}

    def crash(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr(rotation, "enter", crash)
        rotation.start(kind=kind, hold_seconds=0, actor="admin")
    assert len(list(data.glob(pattern))) == len(before) + 1
    rotation.update_files()
    assert {path: path.read_bytes() for path in data.glob(pattern)} == before


def test_keys_are_private_and_in_no_event(admin: Any, data: Path) -> None:
    act(admin, "ca", "start")
    act(admin, "ticket-key", "start")
    secrets = [*data.glob("ca*.key"), *data.glob("ticket_key*")]
    assert len(secrets) == 4 and all(path.stat().st_mode & 0o777 == 0o600 for path in secrets)
    stored = "".join(f"{e.message} {e.data}" for e in Event.objects.all())
    for path in data.glob("ticket_key*"):
        assert path.read_bytes().hex() not in stored
    assert "PRIVATE" not in stored and "PRIVATE" not in (data / "ca.pem").read_text()


def test_key_file_of_an_earlier_release_gets_its_certificate(data: Path) -> None:
    before, path = authorities()[0], data / "ca.key"
    path.write_text(path.read_text().partition("-----BEGIN CERTIFICATE")[0])
    assert authorities()[0].fingerprint == before.fingerprint
    assert "BEGIN CERTIFICATE" in path.read_text()


def test_responses_name_the_trusted_cas(admin: Any, data: Path) -> None:
    def named() -> str:
        return str(admin.get("/api/v1/me")[AUTHORITIES_HEADER])

    first = named()
    act(admin, "ca", "start")
    rotation.update_files()
    assert named() == hashlib.sha256((data / "ca.pem").read_bytes()).hexdigest() != first
    assert phase() == Phase.DISTRIBUTE
