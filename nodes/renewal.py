"""Renewal of the node's certificates, also after they have expired."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nodes.credentials import Credentials, load_credentials, store_renewed, version_in_force
from nodes.enrolment import NewKeys, request_json
from nodes.errors import NodeError
from nodes.protocol.renewal_content import signed_content


def renew(folder: Path, appliance_url: str = "") -> Credentials:
    """Request certificates for new keys and put them in force. Blocks.

    The signature by the current key proves the identity. `appliance_url` replaces the URL of the
    enrolment. Raises NodeError if the appliance cannot be reached or refuses the request.
    """
    version = version_in_force(folder)
    current = load_credentials(folder)
    if current is None:
        raise NodeError(f"No credentials in {folder}; enrol the machine first.")
    keys = NewKeys()
    body = {
        "certificate": current.agent_pem,
        **keys.requests(),
        "signature": sign(current, keys),
    }
    url = appliance_url or current.identity.appliance_url
    context = ssl.create_default_context(cadata=current.ca_pem)
    renewed = keys.credentials(request_json(f"{url}/api/v1/certificate-renewals", body, context))
    store_renewed(folder, renewed, version)
    return renewed


def sign(current: Credentials, keys: NewKeys) -> str:
    """Return the signature of the request by the current agent key, in base64."""
    key = serialization.load_pem_private_key(current.agent_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    content = signed_content(current.agent_pem, keys.agent_csr, keys.launcher_csr)
    return base64.b64encode(key.sign(content, ec.ECDSA(hashes.SHA256()))).decode()
