"""The CAs that nodes and clients trust at present."""

from __future__ import annotations

import hashlib

from django.conf import settings

from appliance.fleet.certificates import Authority, bundle_of, load_authority, write_bundle
from appliance.keys.models import KeyKind
from appliance.keys.slots import state_of


def authorities() -> list[Authority]:
    """Return the trusted CAs. The first one issues certificates. Reads the database."""
    return [load_authority(settings.DATA_DIR, slot) for slot in state_of(KeyKind.CA).accepted]


def digest_of(trusted: list[Authority]) -> str:
    """Return the digest by which certificates record the CAs that were in force."""
    return hashlib.sha256(bundle_of(trusted).encode()).hexdigest()


def publish_bundle() -> None:
    """Bring `ca.pem` up to date: HTTP server, gateway and tickets use it."""
    write_bundle(settings.DATA_DIR, authorities())
