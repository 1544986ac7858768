"""Tickets: signed permissions to open sessions.

The layout is defined in remoting/launcher/ticket.h.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from appliance.allocations import ticket_layouts as layouts
from appliance.runtime.private_file import write_private

LIFETIME_SECONDS = 300

TICKET_MAGIC = b"BBT1"
NODE_SECRET_PURPOSE = b"busbar node secret"


@dataclass(frozen=True)
class SigningKey:
    private: Ed25519PrivateKey

    @cached_property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @cached_property
    def key_id(self) -> bytes:
        return hashlib.sha256(self.public).digest()[:8]

    def node_secret(self, node_id: UUID) -> bytes:
        """Return the X25519 private key of a node for sessions with tickets of this key."""
        derived = HKDF(SHA256(), 32, salt=None, info=NODE_SECRET_PURPOSE + node_id.bytes)
        return derived.derive(self.private.private_bytes_raw())

    def node_key(self, node_id: UUID) -> bytes:
        """Return the public key of `node_secret`."""
        secret = X25519PrivateKey.from_private_bytes(self.node_secret(node_id))
        return secret.public_key().public_bytes_raw()


def signing_key() -> SigningKey:
    """Return the key that signs tickets. Reads the database."""
    return accepted_keys()[0]


def accepted_keys() -> list[SigningKey]:
    """Return the keys whose tickets nodes accept; the first one signs. Reads the database."""
    # Not at the top: `./bench gpu` runs without Django.
    from django.conf import settings

    from appliance.keys.models import KeyKind
    from appliance.keys.slots import state_of

    slots = state_of(KeyKind.TICKET_KEY).accepted
    return [signing_key_in(settings.DATA_DIR / f"ticket_key{slot}") for slot in slots]


@cache
def signing_key_in(path: Path) -> SigningKey:
    """Return the key in a file, which is created with mode 0600 if it does not exist."""
    if not path.exists():
        write_private(path, Ed25519PrivateKey.generate().private_bytes_raw())
    return SigningKey(Ed25519PrivateKey.from_private_bytes(path.read_bytes()))


def issue(
    *,
    key: SigningKey,
    allocation_id: UUID,
    node_id: UUID,
    fence: tuple[int, int],
    client_public_key: bytes,
    partitions: Sequence[layouts.Partition],
    now_seconds: int,
) -> bytes:
    """Return a signed ticket.

    `client_public_key` is an X25519 key of 32 bytes. The client proves possession of the private
    key in its handshake with the node. `fence` is epoch and counter.
    """
    body = layouts.TicketBody(
        magic=TICKET_MAGIC,
        partitions=len(partitions),
        key_id=key.key_id,
        allocation=allocation_id.bytes,
        node=node_id.bytes,
        issued_seconds=now_seconds,
        expires_seconds=now_seconds + LIFETIME_SECONDS,
        fence_epoch=fence[0],
        fence_counter=fence[1],
        client_key=client_public_key,
    ).pack()
    body += b"".join(p.pack() for p in partitions)
    return body + key.private.sign(body)
