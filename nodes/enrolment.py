"""Redemption of an enrolment token: keys, certificates and identity of the node."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from nodes.credentials import Credentials, load_credentials, store_credentials
from nodes.errors import NodeError
from nodes.identity import Identity

TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class Token:
    """The content of an enrolment token."""

    secret: str
    url: str
    ca_sha256: str
    """Fingerprints of the appliance's CAs, separated by spaces."""

    @classmethod
    def parse(cls, text: str) -> Token:
        """Decode a token. Raises NodeError if it is incomplete."""
        try:
            content = json.loads(base64.urlsafe_b64decode(text.strip().encode()))
            return cls(content["secret"], content["url"], content["ca_sha256"])
        except (ValueError, KeyError) as error:
            raise NodeError(
                "The enrolment token is incomplete;"
                " copy the whole line that `busbar node token` printed."
            ) from error


def new_key_and_csr() -> tuple[bytes, str]:
    """Return a new private key and its CSR in PEM format. The appliance ignores the subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem, csr.public_bytes(serialization.Encoding.PEM).decode()


def fetch_ca(token: Token) -> str:
    """Fetch the appliance's CAs over an unverified connection; return those that the token names.

    Raises NodeError if there is none.
    """
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    pem: str = request_json(f"{token.url}/api/v1/ca", None, unverified)["ca_pem"]
    pinned = "".join(
        c.public_bytes(serialization.Encoding.PEM).decode()
        for c in x509.load_pem_x509_certificates(pem.encode())
        if c.fingerprint(hashes.SHA256()).hex() in token.ca_sha256.split()
    )
    if not pinned:
        raise NodeError(
            f"{token.url} is not the appliance that issued the token: the fingerprint of its CA"
            " differs. Nothing was sent to it."
        )
    return pinned


def request_json(url: str, body: dict[str, Any] | None, context: ssl.SSLContext) -> dict[str, Any]:
    """POST the body, or GET without one, and return the JSON response.

    Raises NodeError if the server cannot be reached or returns an error.
    """
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context) as response:
            content: dict[str, Any] = json.load(response)
            return content
    except urllib.error.HTTPError as error:
        raise NodeError(error_detail(error)) from error
    except OSError as error:
        raise NodeError(f"Cannot reach {url}: {error}") from error


def error_detail(error: urllib.error.HTTPError) -> str:
    """Return the detail of a problem response, or its status."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"The appliance returned HTTP status {error.code}."


def enrol(folder: Path, token_text: str, name: str = "") -> Identity:
    """Redeem the token and put the new credentials in force, also on an enrolled machine.

    A new node is called `name`, or as the host if that is empty. Raises NodeError if the token is
    refused; credentials of an earlier enrolment then stay.
    """
    token = Token.parse(token_text)
    pinned = ssl.create_default_context(cadata=fetch_ca(token))
    keys = NewKeys()
    body = {"secret": token.secret, "hostname": name or hostname(), **keys.requests()}
    try:
        response = request_json(f"{token.url}/api/v1/enrol", body, pinned)
    except NodeError as error:
        raise NodeError(f"{error}{unchanged_identity(folder)}") from error
    credentials = keys.credentials(response)
    store_credentials(folder, credentials)
    return credentials.identity


def unchanged_identity(folder: Path) -> str:
    """Return a sentence about the credentials of an earlier enrolment; empty without them."""
    try:
        existing = load_credentials(folder)
    except NodeError:
        return ""
    return f" This machine is still node {existing.identity.node_name}." if existing else ""


class NewKeys:
    """New keys of agent and launcher, for which the appliance issues certificates."""

    def __init__(self) -> None:
        self._agent_key, self.agent_csr = new_key_and_csr()
        self._launcher_key, self.launcher_csr = new_key_and_csr()

    def requests(self) -> dict[str, str]:
        """Return the certificate signing requests as fields of a request."""
        return {"agent_csr": self.agent_csr, "launcher_csr": self.launcher_csr}

    def credentials(self, response: dict[str, Any]) -> Credentials:
        """Combine the keys with the appliance's response."""
        identity = Identity(
            response["node_id"],
            response["node_name"],
            response["fleet_address"],
            response["appliance_url"],
        )
        return Credentials(
            identity,
            response["ca_pem"],
            self._agent_key,
            response["agent_pem"],
            self._launcher_key,
            response["launcher_pem"],
        )


def hostname() -> str:
    """Return the host name with only letters, digits, dots, hyphens and underscores."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())
    return name.strip("-._")[:80] or "node"
