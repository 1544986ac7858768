"""Renewal of node certificates over REST: generations, expiry, copies and re-enrolment."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.api.errors import ApplianceError
from appliance.fleet import auth, enrolment
from appliance.fleet.models import NodeCertificate
from appliance.fleet.renewal import MAX_RENEWALS
from appliance.inventory.models import Node
from nodes.enrolment import NewKeys, Token
from nodes.protocol.renewal_content import signed_content
from tests.appliance.conftest import Cast, body

pytestmark = pytest.mark.django_db
Clients = Callable[[User | None], Any]


class Machine:
    """A node's credentials, as its agent keeps them."""

    def __init__(self, client: Any, node: Node | None = None) -> None:
        self.client = client
        _, text = enrolment.token_create(user=None, node_id=node.pk if node else None)
        self.keys = NewKeys()
        request = {"secret": Token.parse(text).secret, "hostname": "m", **self.keys.requests()}
        self.content = body(client.post("/api/v1/enrol", request, format="json"))

    @property
    def node(self) -> Node:
        return Node.objects.get(pk=self.content["node_id"])

    @property
    def serial(self) -> str:
        certificate = x509.load_pem_x509_certificate(self.content["agent_pem"].encode())
        return format(certificate.serial_number, "x")

    @property
    def generation(self) -> int:
        return NodeCertificate.objects.get(pk=self.serial).generation

    def request(self, keys: NewKeys, **changes: str) -> dict[str, str]:
        fields = {"certificate": self.content["agent_pem"], **keys.requests()} | changes
        key = serialization.load_pem_private_key(self.keys._agent_key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        signature = key.sign(signed_content(**_texts(fields)), ec.ECDSA(hashes.SHA256()))
        return fields | {"signature": base64.b64encode(signature).decode()}

    def renew(self, **changes: str) -> Any:
        """Renew, keep the new credentials if there are any, and return the response."""
        keys = NewKeys()
        response = self.client.post(
            "/api/v1/certificate-renewals", self.request(keys, **changes), format="json"
        )
        if response.status_code == 201:
            self.keys, self.content = keys, body(response)
        return response

    def copy(self) -> Machine:
        other = Machine.__new__(Machine)
        other.__dict__.update(self.__dict__)
        return other

    def connect(self) -> None:
        assert auth.admit_agent(self.serial) == self.node.pk


def _texts(fields: dict[str, str]) -> dict[str, str]:
    return {
        "certificate_pem": fields["certificate"],
        "agent_csr": fields["agent_csr"],
        "launcher_csr": fields["launcher_csr"],
    }


@pytest.fixture
def machine(cast: Cast, client_of: Clients) -> Machine:
    return Machine(client_of(None))


def expire(machine: Machine, **ago: int) -> None:
    NodeCertificate.objects.filter(pk=machine.serial).update(
        not_after=timezone.now() - timedelta(**ago)
    )


def let_time_pass(**times: int) -> None:
    """Move the times of all certificates into the past."""
    for row in NodeCertificate.objects.all():
        row.created_at -= timedelta(**times)
        if row.superseded_at:
            row.superseded_at -= timedelta(**times)
        row.save()


def test_renewal_issues_the_next_generation(machine: Machine) -> None:
    machine.connect()
    assert machine.renew().status_code == 201
    machine.connect()
    assert machine.generation == 2


def test_expired_certificate_is_renewed_for_30_days(machine: Machine) -> None:
    machine.connect()
    expire(machine, days=29, hours=23)
    assert machine.renew().status_code == 201
    machine.connect()


def test_certificate_that_expired_31_days_ago_is_not_renewed(machine: Machine) -> None:
    expire(machine, days=31)
    response = machine.renew()
    assert response.status_code == 401 and "enrol the machine again" in body(response)["detail"]


def test_expired_certificate_cannot_connect(machine: Machine) -> None:
    expire(machine, seconds=1)
    with pytest.raises(ApplianceError, match="expired"):
        machine.connect()


def test_renewal_needs_the_key_of_the_certificate(machine: Machine) -> None:
    thief = machine.copy()
    thief.keys = NewKeys()
    assert thief.renew().status_code == 401


def test_signature_covers_the_new_keys(machine: Machine) -> None:
    request = machine.request(NewKeys()) | NewKeys().requests()
    response = machine.client.post("/api/v1/certificate-renewals", request, format="json")
    assert response.status_code == 401


def test_foreign_certificate_is_refused(machine: Machine) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    real = x509.load_pem_x509_certificate(machine.content["agent_pem"].encode())
    forged = (
        x509.CertificateBuilder(
            real.issuer,
            real.subject,
            key.public_key(),
            real.serial_number,
            real.not_valid_before_utc,
            real.not_valid_after_utc,
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )
    machine.keys._agent_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert machine.renew(certificate=forged).status_code == 401
    assert machine.renew(certificate="not a certificate").status_code == 400


def test_csr_with_an_rsa_key_is_refused(machine: Machine) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    pem = csr.public_bytes(serialization.Encoding.PEM).decode()
    response = machine.renew(agent_csr=pem)
    assert response.status_code == 400 and "elliptic" in body(response)["detail"]


def test_renewal_with_a_lost_response_can_be_repeated(machine: Machine) -> None:
    machine.connect()
    assert machine.copy().renew().status_code == 201  # the response is lost
    assert machine.renew().status_code == 429
    let_time_pass(seconds=10)
    assert machine.renew().status_code == 201
    machine.connect()


def test_use_of_an_older_generation_locks_the_node(machine: Machine) -> None:
    machine.connect()
    copy = machine.copy()
    machine.renew()
    machine.connect()
    with pytest.raises(ApplianceError, match="replaced"):
        copy.connect()
    assert machine.node.locked_at is None, "a connection may arrive late"
    let_time_pass(seconds=11)
    with pytest.raises(ApplianceError, match="is locked"):
        copy.connect()
    assert Event.objects.filter(kind="node.locked", object_id=machine.node.pk).count() == 1
    with pytest.raises(ApplianceError, match="is locked"):
        machine.connect()
    assert body(machine.renew())["code"] == "node_locked"


def test_renewal_by_a_copy_is_noticed_when_the_node_connects(machine: Machine) -> None:
    machine.connect()
    copy = machine.copy()
    copy.renew()
    copy.connect()
    let_time_pass(seconds=11)
    with pytest.raises(ApplianceError, match="is locked"):
        machine.connect()


def test_two_renewals_of_one_certificate_cannot_both_be_used(machine: Machine) -> None:
    machine.connect()
    copy = machine.copy()
    copy.renew()
    let_time_pass(seconds=11)
    machine.renew()
    machine.connect()
    let_time_pass(seconds=11)
    with pytest.raises(ApplianceError, match="is locked"):
        copy.connect()


def test_operator_unlocks_a_node(machine: Machine, cast: Cast, client_of: Clients) -> None:
    machine.connect()
    copy = machine.copy()
    machine.renew()
    machine.connect()
    let_time_pass(seconds=11)
    copy.renew()
    assert machine.node.locked_at is not None and "copy" in machine.node.lock_reason
    unlocked = client_of(cast.olga).post(f"/api/v1/nodes/{machine.node.pk}/unlock")
    assert body(unlocked)["locked_at"] is None
    machine.connect()


def test_new_enrolment_unlocks_the_node_and_revokes_both_copies(
    machine: Machine, client_of: Clients
) -> None:
    machine.connect()
    copy = machine.copy()
    machine.renew()
    machine.connect()
    let_time_pass(seconds=11)
    copy.renew()
    again = Machine(client_of(None), machine.node)
    assert again.node == machine.node
    again.connect()
    for old in (machine, copy):
        with pytest.raises(ApplianceError, match="enrol the machine again"):
            old.connect()
    assert again.node.locked_at is None


def test_removed_node_cannot_renew(machine: Machine, cast: Cast, client_of: Clients) -> None:
    client_of(cast.olga).delete(f"/api/v1/nodes/{machine.node.pk}")
    assert machine.renew().status_code == 401


def test_locked_node_gets_no_allocation_and_no_tickets(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    from appliance.inventory.locks import lock_node
    from tests.appliance.conftest import applied

    node, alice = add_node(), client_of(cast.alice)
    held = body(alice.post("/api/v1/allocations", {"percent": 5}, format="json"))
    applied(node)
    lock_node(node_id=node.pk, reason="test.")
    waiting = body(alice.post("/api/v1/allocations", {"percent": 5}, format="json"))
    assert waiting["state"] == "queued" and "is locked" in waiting["waiting_reason"]
    response = alice.post(
        f"/api/v1/allocations/{held['id']}/tickets",
        {"client_public_key": base64.b64encode(bytes(32)).decode()},
        format="json",
    )
    assert response.status_code == 409 and body(response)["code"] == "node_locked"


def test_renewals_of_one_node_are_limited(machine: Machine) -> None:
    """A node that renews each new certificate at once would fill the database."""
    while (response := machine.renew()).status_code == 201:
        assert machine.generation < 2 * MAX_RENEWALS
    assert body(response)["code"] == "too_many_attempts"
    assert NodeCertificate.objects.filter(node=machine.node, purpose="agent").count() == (
        MAX_RENEWALS
    )
    let_time_pass(hours=1)
    assert machine.renew().status_code == 201


def with_version(pem: str, version: int) -> str:
    """Return a certificate or request with another version in its DER encoding."""
    label = pem.partition("-----BEGIN ")[2].partition("-----")[0]
    der = base64.b64decode("".join(pem.splitlines()[1:-1]))
    at = der.index(b"\x02\x01") + 2
    encoded = base64.b64encode(der[:at] + bytes([version]) + der[at + 1 :]).decode()
    return f"-----BEGIN {label}-----\n{encoded}\n-----END {label}-----\n"


@pytest.mark.parametrize("version", [1, 7, 127])
def test_certificate_of_an_unknown_version_is_refused(machine: Machine, version: int) -> None:
    changed = with_version(machine.content["agent_pem"], version)
    response = machine.renew(certificate=changed)
    assert response.status_code in (400, 401) and body(response)["detail"]


def with_unknown_kind_of_key(pem: str) -> str:
    der = base64.b64decode("".join(pem.splitlines()[1:-1]))
    elliptic_curve = bytes.fromhex("06072a8648ce3d0201")
    assert elliptic_curve in der
    encoded = base64.b64encode(der.replace(elliptic_curve, elliptic_curve[:-1] + b"\x63")).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{encoded}\n-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    "change", [with_unknown_kind_of_key, lambda pem: with_version(pem, 7)], ids=["key", "version"]
)
def test_request_that_cannot_be_read_is_refused(
    machine: Machine, change: Callable[[str], str]
) -> None:
    response = machine.renew(agent_csr=change(NewKeys().requests()["agent_csr"]))
    assert response.status_code == 400 and "CSR" in body(response)["detail"]
