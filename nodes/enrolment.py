"""A machine becomes a node: keys made here, the CA pinned by the token's fingerprint, one call, undo on failure."""

from __future__ import annotations

import base64
import hashlib
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

from nodes.checkpoint import Identity, load_identity, save_identity, write_atomically
from nodes.errors import NodeError

TIMEOUT_SECONDS = 20
FILES = ("ca.pem", "agent.pem", "agent.key", "launcher.pem", "launcher.key", "identity.json")


@dataclass(frozen=True)
class Token:
    secret: str
    url: str
    ca_sha256: str

    @classmethod
    def parse(cls, text: str) -> Token:
        try:
            content = json.loads(base64.urlsafe_b64decode(text.strip().encode()))
            return cls(content["secret"], content["url"], content["ca_sha256"])
        except (ValueError, KeyError) as error:
            raise NodeError(
                "The enrolment token is not complete; copy the whole line that `busbar node token` printed."
            ) from error


def new_key_and_csr() -> tuple[bytes, str]:
    """PEM of a fresh key and its CSR; the appliance ignores the subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem, csr.public_bytes(serialization.Encoding.PEM).decode()


def fetch_ca(token: Token) -> str:
    """The appliance's CA over an unchecked connection, believed only if its fingerprint is the token's."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    pem: str = call(f"{token.url}/api/v1/ca", None, unchecked)["ca_pem"]
    if hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest() != token.ca_sha256:
        raise NodeError(
            f"{token.url} is not the appliance that made the token: its CA has another fingerprint. Nothing was sent to it."
        )
    return pem


def call(url: str, body: dict[str, Any] | None, context: ssl.SSLContext) -> dict[str, Any]:
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        raise NodeError(problem_text(error)) from error
    except OSError as error:
        raise NodeError(f"{url} cannot be reached: {error}") from error


def problem_text(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the appliance answered {error.code}"


def enrol(folder: Path, token_text: str) -> Identity:
    """Redeems the token. On failure, exactly the files made here are removed."""
    if (held := load_identity(folder)) is not None:
        return held
    token = Token.parse(token_text)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_pem = fetch_ca(token)
    pinned = ssl.create_default_context(cadata=ca_pem)
    agent_key, agent_csr = new_key_and_csr()
    launcher_key, launcher_csr = new_key_and_csr()
    body = {
        "secret": token.secret,
        "hostname": hostname(),
        "agent_csr": agent_csr,
        "launcher_csr": launcher_csr,
    }
    answer = call(f"{token.url}/api/v1/enrol", body, pinned)
    try:
        write_atomically(folder / "agent.key", agent_key)
        write_atomically(folder / "launcher.key", launcher_key)
        store_certificates(folder, answer)
        identity = Identity(answer["node_id"], answer["node_name"], answer["fleet_address"])
        save_identity(folder, identity)
    except OSError:
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        raise
    return identity


def store_certificates(folder: Path, answer: dict[str, Any]) -> None:
    for name in ("ca", "agent", "launcher"):
        write_atomically(folder / f"{name}.pem", answer[f"{name}_pem"].encode())


def hostname() -> str:
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname()).strip(
        "-._"
    )
    return name[:80] or "node"
