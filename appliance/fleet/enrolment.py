"""Enrolment of nodes: tokens, certificates and removal."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import Certificate
from django.conf import settings
from django.db.models import F, Max, Q
from django.utils import timezone

from appliance.accounts.actions import Action, Refusals, raise_refusal
from appliance.accounts.models import RoleBinding, User
from appliance.activity.events import emit
from appliance.allocations.models import Allocation
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record, record_created, record_deleted
from appliance.db import change_log, origin
from appliance.db.change_log import Topic
from appliance.db.writer import write_transaction
from appliance.fleet.authorities import authorities, digest_of
from appliance.fleet.certificates import bundle_of, sign_node_certificate
from appliance.fleet.models import EnrolmentToken, NodeCertificate
from appliance.inventory.actions import NODES
from appliance.inventory.locks import unlock_node
from appliance.inventory.models import Gpu, Node, NodeState
from appliance.inventory.reports import create_node
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NodeSettings

TOKEN_LIFETIME = timedelta(minutes=15)
RETRY_WINDOW = timedelta(seconds=60)


@write_transaction
def node_remove(*, node_id: UUID, actor: str) -> Node:
    """Remove a node and revoke its certificates. Does nothing if it is removed already.

    Raises:
        ApplianceError: IN_USE with the blocking allocations if they hold partitions of the node,
            CONFLICT if the node changed concurrently.
    """
    node = Node.objects.get(pk=node_id)
    if node.state == NodeState.REMOVED:
        return node
    for refusal in removal_refusals([node]):
        raise_refusal(refusal)
    if not Node.objects.filter(pk=node_id, version=node.version).update(
        state=NodeState.REMOVED, version=F("version") + 1
    ):
        raise ApplianceError(Code.CONFLICT, f"Node {node.name} changed concurrently; try again.")
    change_log.record(Topic.NODE_CAPACITY, node_id)
    Gpu.objects.filter(node=node).update(present=False, duplicate_of=None)
    end_bindings(node)
    NodeCertificate.objects.filter(node=node, revoked_at=None).update(revoked_at=timezone.now())
    node.refresh_from_db()
    change_log.record(Topic.NODE_REMOVED, node_id)
    record(node, "removed", {}, {"state": node.state})
    emit(
        "node.removed",
        path=node.path,
        object_id=node.pk,
        actor=actor,
        message=f"Node {node.name} removed: its certificates are revoked.",
    )
    return node


def end_bindings(node: Node) -> None:
    """Delete the role bindings at a removed node and its GPUs."""
    for binding in RoleBinding.objects.filter(Q(node=node) | Q(gpu__node=node)):
        record_deleted(binding)
        binding.delete()


def removal_refusals(nodes: Sequence[Node]) -> Refusals:
    """Return the error IN_USE, with the allocations, for each node that is in use."""
    present = [node.pk for node in nodes if node.state != NodeState.REMOVED]
    rows = Allocation.objects.filter(partitions__gpu__node__in=present).distinct()
    blockers: dict[UUID, list[dict[str, object]]] = {}
    columns = ("partitions__gpu__node_id", "pk", "name", "state")
    for node_id, pk, name, state in rows.values_list(*columns):
        blocker: dict[str, object] = {
            "kind": "allocation",
            "id": str(pk),
            "name": name,
            "state": state,
        }
        blockers.setdefault(node_id, []).append(blocker)
    return [node_in_use(node, blockers.get(node.pk, [])) for node in nodes]


def node_in_use(node: Node, blockers: list[dict[str, object]]) -> ApplianceError | None:
    if not blockers:
        return None
    count = "1 allocation" if len(blockers) == 1 else f"{len(blockers)} allocations"
    return ApplianceError(
        Code.IN_USE,
        f"{count} on node {node.name}; release them first, or cordon the node and wait.",
        blockers=blockers,
    )


REMOVE = NODES.add(Action("remove", "fleet.enrol", lambda _, nodes: removal_refusals(nodes)))


def sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@write_transaction
def token_create(
    *, user: User | None, node_id: UUID | None = None, simulated: bool = False
) -> tuple[EnrolmentToken, str]:
    """Create an enrolment token. Returns the row and the token's text, which is not stored.

    The text holds secret, appliance URL and the fingerprints of the trusted CAs. With `node_id`
    the machine that redeems the token replaces the machine of this node. A node that is new and
    `simulated` stays so: its GPUs join simulated pools only.
    """
    if node_id is not None and not Node.objects.present().filter(pk=node_id).exists():
        raise ApplianceError(
            Code.NOT_FOUND,
            f"Node {node_id} not found. List nodes with `busbar node list`,"
            " or omit the node to enrol a new one.",
        )
    secret = secrets.token_urlsafe(32)
    token = EnrolmentToken.objects.create(
        secret_sha256=sha256_hex(secret),
        node_id=node_id,
        simulated=simulated,
        created_by=user,
        expires_at=timezone.now() + TOKEN_LIFETIME,
    )
    record_created(token)
    content = {
        "secret": secret,
        "url": appliance_url(),
        "ca_sha256": " ".join(a.fingerprint for a in authorities()),
    }
    return token, base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


@write_transaction
def redeem(*, secret: str, hostname: str, agent_csr: str, launcher_csr: str) -> dict[str, Any]:
    """Redeem a token: create the node, or replace its machine, and issue certificates.

    Returns the body of the response. One guarded update ensures that a token is redeemed once.
    Raises ApplianceError with TOKEN_SPENT for an unknown, spent or expired token.
    """
    key = sha256_hex(agent_csr)
    now = timezone.now()
    redeemed = EnrolmentToken.objects.filter(
        secret_sha256=sha256_hex(secret), redeemed_at=None, expires_at__gt=now
    ).update(redeemed_at=now, redeemed_key_sha256=key)
    if not redeemed:
        return stored_response(secret, key)
    token = EnrolmentToken.objects.select_related("node").get(secret_sha256=sha256_hex(secret))
    existing = token.node
    if existing is not None:
        revoke_certificates(existing)
        unlock_node(node_id=existing.pk, actor="system")
        Node.objects.filter(pk=existing.pk).update(expects_gpus=True)
    node = existing or create_node(name=hostname, simulated=token.simulated)
    response = {
        **issue_certificates(node, agent_csr, launcher_csr, next_generation(node)),
    }
    EnrolmentToken.objects.filter(secret_sha256=sha256_hex(secret)).update(answer=response)
    return response


def stored_response(secret: str, key: str) -> dict[str, Any]:
    """Return the response of a redemption that is retried with the same key within 60 s."""
    token = EnrolmentToken.objects.filter(
        secret_sha256=sha256_hex(secret),
        redeemed_key_sha256=key,
        redeemed_at__gt=timezone.now() - RETRY_WINDOW,
    ).first()
    if token is None or token.answer is None:
        raise ApplianceError(
            Code.TOKEN_SPENT,
            "The enrolment token is unknown, spent or older than 15 minutes."
            " Create a new one with `busbar node token`.",
        )
    response: dict[str, Any] = token.answer
    return response


def revoke_certificates(node: Node) -> None:
    """Revoke all certificates of a node whose machine is replaced."""
    NodeCertificate.objects.filter(node=node, revoked_at=None).update(revoked_at=timezone.now())
    emit(
        "node.enrolled_again",
        path=node.path,
        object_id=node.pk,
        message=f"Node {node.name} enrolled again: its previous certificates are revoked.",
    )


def next_generation(node: Node) -> int:
    newest = NodeCertificate.objects.filter(node=node).aggregate(newest=Max("generation"))["newest"]
    return (newest or 0) + 1


def issue_certificates(
    node: Node, agent_csr: str, launcher_csr: str, generation: int = 1
) -> dict[str, Any]:
    """Sign both CSRs and record the serials. Must be called inside a transaction.

    Returns the body of the response to an enrolment or renewal.
    """
    if node.state == NodeState.REMOVED:
        raise ApplianceError(Code.DENIED, f"Node {node.name} was removed; enrol the machine again.")
    origin.act_as(f"node {node.name}")
    record(node, "certified", {}, {"certificate_generation": generation})
    trusted = authorities()
    out: dict[str, Any] = {
        "node_id": str(node.pk),
        "node_name": node.name,
        "ca_pem": bundle_of(trusted),
        "fleet_address": f"{settings.ENVIRONMENT.advertise}:{settings.ENVIRONMENT.fleet_port}",
        "appliance_url": appliance_url(),
    }
    lifetime = timedelta(seconds=current(NodeSettings).certificate_seconds)
    for purpose, csr in (("agent", agent_csr), ("launcher", launcher_csr)):
        try:
            certificate = sign_node_certificate(trusted[0], csr, node.pk, purpose, lifetime)
        except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
            raise ApplianceError(Code.INVALID, f"Invalid {purpose} CSR: {error}.") from None
        record_certificate(node, purpose, certificate, generation, digest_of(trusted))
        out[f"{purpose}_pem"] = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return out


def appliance_url() -> str:
    return f"https://{settings.ENVIRONMENT.advertise}:{settings.ENVIRONMENT.https_port}"


def record_certificate(
    node: Node, purpose: str, certificate: Certificate, generation: int, authorities_sha256: str
) -> None:
    NodeCertificate.objects.create(
        serial=format(certificate.serial_number, "x"),
        node=node,
        purpose=purpose,
        not_after=certificate.not_valid_after_utc,
        generation=generation,
        authorities_sha256=authorities_sha256,
    )
