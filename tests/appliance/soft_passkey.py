"""A device with one passkey, in software: answers the options of a browser as Chromium does."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_encode

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40
Json = dict[str, Any]


def cose_key(key: ec.EllipticCurvePrivateKey) -> Any:
    make: Any = ES256.from_cryptography_key  # fido2 has no types for it
    return make(key.public_key())


@dataclass
class Device:
    origin: str = "https://testserver"
    flags: int = PRESENT | VERIFIED
    count: int = 0
    """Counter of the next answer, which must grow unless it is 0."""
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def create(self, options: Json) -> Json:
        """Answer `navigator.credentials.create`."""
        client_data = self._client_data("webauthn.create", options)
        public = cbor.encode(cose_key(self.key))
        attested = bytes(16) + struct.pack(">H", len(self.credential_id)) + self.credential_id
        data = self._data(options["rp"]["id"], self.flags | ATTESTED) + attested + public
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        return self._answer(
            {
                "clientDataJSON": websafe_encode(client_data),
                "attestationObject": websafe_encode(attestation),
            }
        )

    def get(self, options: Json) -> Json:
        """Answer `navigator.credentials.get`."""
        client_data = self._client_data("webauthn.get", options)
        data = self._data(options["rpId"], self.flags)
        signed = data + hashlib.sha256(client_data).digest()
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        return self._answer(
            {
                "clientDataJSON": websafe_encode(client_data),
                "authenticatorData": websafe_encode(data),
                "signature": websafe_encode(signature),
            }
        )

    def _client_data(self, kind: str, options: Json) -> bytes:
        content = {"type": kind, "challenge": options["challenge"], "origin": self.origin}
        return json.dumps(content | {"crossOrigin": False}).encode()

    def _data(self, domain: str, flags: int) -> bytes:
        digest = hashlib.sha256(domain.encode()).digest()
        return digest + struct.pack(">BI", flags, self.count)

    def _answer(self, response: Json) -> Json:
        name = websafe_encode(self.credential_id)
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "response": response,
            "clientExtensionResults": {},
            "authenticatorAttachment": "platform",
        }
