"""Adoption of certificates that a restored appliance issued after its backup (ADR 94).

Their rows are lost. Without them each agent that has renewed since would have to be enrolled again.
"""

from __future__ import annotations

from uuid import UUID

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.conf import settings
from django.db.models import Max

from appliance.activity.events import emit
from appliance.db.writer import write_transaction
from appliance.fleet.authorities import authorities
from appliance.fleet.certificates import BACKDATE, is_issued_by
from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Node
from appliance.runtime import restored


def adopt_certificate(pem: str) -> None:
    """Store the row of an agent's certificate if it was issued between backup and restore.

    Does nothing for another certificate, of a node that is not in the backup, or that is older than
    one which the node has used: the newer one has superseded it.
    """
    origin = restored.read(settings.DATA_DIR)
    if origin is None:
        return
    certificate = x509.load_pem_x509_certificate(pem.encode())
    issued_at = certificate.not_valid_before_utc + BACKDATE
    if not origin.created_at <= issued_at <= origin.restored_at:
        return
    if is_of_agent(certificate) and any(is_issued_by(a, certificate) for a in authorities()):
        store_row(certificate, node_id_of(certificate))


def is_of_agent(certificate: x509.Certificate) -> bool:
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage


def node_id_of(certificate: x509.Certificate) -> UUID:
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return UUID(str(name.value))


@write_transaction
def store_row(certificate: x509.Certificate, node_id: UUID) -> None:
    node = Node.objects.present().filter(pk=node_id).first()
    if node is None:
        return
    issued_at = certificate.not_valid_before_utc + BACKDATE
    known = NodeCertificate.objects.filter(node=node, purpose="agent")
    newest = known.aggregate(created=Max("created_at"), generation=Max("generation"))
    if newest["created"] and newest["created"] > issued_at:
        return
    NodeCertificate.objects.create(
        serial=format(certificate.serial_number, "x"),
        node=node,
        purpose="agent",
        not_after=certificate.not_valid_after_utc,
        generation=(newest["generation"] or 0) + 1,
        created_at=issued_at,
    )
    emit(
        "node.certificate_adopted",
        path=node.path,
        object_id=node.pk,
        message=f"Node {node.name} has a certificate that was issued after the restored backup.",
    )
