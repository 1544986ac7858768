"""Enrolment tokens: issued once, redeemed once."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives import serialization
from cryptography.x509 import Certificate
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.services import emit
from appliance.allocations.models import Allocation
from appliance.errors import ApplianceError, Code
from appliance.fleet.certificates import load_authority, sign_node
from appliance.fleet.models import EnrolmentToken, NodeCertificate
from appliance.inventory import changes
from appliance.inventory.models import Node, NodeState
from appliance.inventory.services import node_create
from appliance.telemetry import latest
from appliance.writer import writes

TOKEN_LIFE = timedelta(minutes=15)
RETRY_WINDOW = timedelta(seconds=60)


@writes
def node_remove(*, node_id: UUID, actor: str) -> Node:
    """Its certificates end, so its agent is refused. Refused itself while something runs there: those are named."""
    node = Node.objects.get(pk=node_id)
    if node.state == NodeState.REMOVED:
        return node
    blockers = list(Allocation.objects.filter(partitions__gpu__node=node).distinct())
    if blockers:
        names = [
            {"kind": "allocation", "id": str(a.pk), "name": a.name, "state": a.state}
            for a in blockers
        ]
        raise ApplianceError(
            Code.IN_USE,
            f"Node {node.name} holds partitions of {len(names)} allocations; release them first, or cordon the node and wait.",
            blockers=names,
        )
    if not Node.objects.filter(pk=node_id, version=node.version).update(
        state=NodeState.REMOVED, version=F("version") + 1
    ):
        raise ApplianceError(Code.CONFLICT, f"Node {node.name} changed meanwhile; try again.")
    changes.node_changed(node_id)
    NodeCertificate.objects.filter(node=node, revoked_at=None).update(revoked_at=timezone.now())
    node.refresh_from_db()
    transaction.on_commit(lambda: latest.forget(node_id))
    emit(
        "node.removed",
        path=node.path,
        object_id=node.pk,
        actor=actor,
        message=f"Node {node.name} was removed; its certificates are revoked.",
    )
    return node


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@writes
def token_create(*, user: User | None, node_id: UUID | None = None) -> tuple[EnrolmentToken, str]:
    """The row, and the text that a node needs: secret, appliance URL, CA fingerprint. With `node_id` a machine that was installed anew is that node again."""
    if node_id is not None and not Node.objects.present().filter(pk=node_id).exists():
        raise ApplianceError(
            Code.NOT_FOUND,
            "There is no such node; `busbar node list` shows them. Without one the machine becomes a new node.",
        )
    secret = secrets.token_urlsafe(32)
    token = EnrolmentToken.objects.create(
        secret_sha256=digest(secret),
        node_id=node_id,
        created_by=user,
        expires_at=timezone.now() + TOKEN_LIFE,
    )
    authority = load_authority(settings.DATA_DIR)
    e = settings.ENVIRONMENT
    content = {
        "secret": secret,
        "url": f"https://{e.advertise}:{e.https_port}",
        "ca_sha256": authority.fingerprint,
    }
    return token, base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


@writes
def redeem(*, secret: str, hostname: str, agent_csr: str, launcher_csr: str) -> dict[str, Any]:
    """Node id, certificates and where to go. One guarded update decides who redeems a token."""
    key = digest(agent_csr)
    now = timezone.now()
    won = EnrolmentToken.objects.filter(
        secret_sha256=digest(secret), redeemed_at=None, expires_at__gt=now
    ).update(redeemed_at=now, redeemed_key_sha256=key)
    if not won:
        again = EnrolmentToken.objects.filter(
            secret_sha256=digest(secret),
            redeemed_key_sha256=key,
            redeemed_at__gt=now - RETRY_WINDOW,
        ).first()
        if again is None or again.answer is None:
            raise ApplianceError(
                Code.TOKEN_SPENT,
                "The enrolment token is unknown, spent or older than 15 minutes; make a new one with `busbar node token`.",
            )
        answer: dict[str, Any] = again.answer
        return answer
    known = Node.objects.filter(
        pk__in=EnrolmentToken.objects.filter(secret_sha256=digest(secret)).values("node_id")
    ).first()
    if known is not None:
        end_certificates(known)
    node = known or node_create(name=hostname)
    answer = {
        "node_id": str(node.pk),
        "node_name": node.name,
        **certificates_for(node, agent_csr, launcher_csr),
    }
    EnrolmentToken.objects.filter(secret_sha256=digest(secret)).update(answer=answer)
    return answer


def end_certificates(node: Node) -> None:
    """Of the machine as it was before: whoever still has them is refused. The node keeps its name, labels, pools and GPUs."""
    NodeCertificate.objects.filter(node=node, revoked_at=None).update(revoked_at=timezone.now())
    emit(
        "node.enrolled_again",
        path=node.path,
        object_id=node.pk,
        message=f"Node {node.name} was enrolled again; its earlier certificates are revoked.",
    )


def certificates_for(node: Node, agent_csr: str, launcher_csr: str) -> dict[str, Any]:
    """Signs both CSRs and remembers the serials. Inside a transaction."""
    if node.state == NodeState.REMOVED:
        raise ApplianceError(Code.DENIED, "The node was removed; enrol the machine again.")
    authority = load_authority(settings.DATA_DIR)
    out: dict[str, Any] = {
        "ca_pem": authority.pem,
        "fleet_address": f"{settings.ENVIRONMENT.advertise}:{settings.ENVIRONMENT.fleet_port}",
    }
    for purpose, csr in (("agent", agent_csr), ("launcher", launcher_csr)):
        try:
            certificate = sign_node(authority, csr, node.pk, purpose)
        except ValueError as error:
            raise ApplianceError(Code.INVALID, f"The {purpose} CSR is not one: {error}.") from None
        remember(node, purpose, certificate)
        out[f"{purpose}_pem"] = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return out


def remember(node: Node, purpose: str, certificate: Certificate) -> None:
    NodeCertificate.objects.create(
        serial=format(certificate.serial_number, "x"),
        node=node,
        purpose=purpose,
        not_after=certificate.not_valid_after_utc,
    )


@writes
def renew(*, node_id: Any, agent_csr: str, launcher_csr: str) -> dict[str, Any]:
    return certificates_for(Node.objects.get(pk=node_id), agent_csr, launcher_csr)
