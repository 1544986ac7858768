"""Confirmation of SSH host keys (trust on first use, by an operator)."""

from __future__ import annotations

from uuid import UUID

from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_created, record_deleted
from appliance.db.writer import write_transaction
from appliance.fleet.models import SshHostKey
from appliance.fleet.ssh import Destination, HostKey, open_transport
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NodeSettings


def confirm_host_key(*, to: Destination, given_sha256: str, actor: str) -> HostKey:
    """Return the host key of the server if it is pinned, or pin it if `given_sha256` matches.

    Blocks for the SSH handshake. Raises ApplianceError with HOST_KEY_UNCONFIRMED and the
    fingerprint if no key is pinned and none is given, HOST_KEY_CHANGED if the key differs.
    """
    with open_transport(to, current(NodeSettings).ssh_seconds) as (_, presented):
        pass
    pinned = SshHostKey.objects.filter(address=to.address, port=to.port).first()
    if pinned is not None:
        require_key(pinned.sha256, presented, to)
        return presented
    given = given_sha256.removeprefix("SHA256:").rstrip("=")
    if not given:
        raise ApplianceError(
            Code.HOST_KEY_UNCONFIRMED,
            f"{to.address} presented the {presented.key_type} key SHA256:{presented.sha256}."
            " Compare it on the machine with"
            " `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`;"
            " if it is equal, repeat the request with it as host_key_sha256.",
            host_key_sha256=presented.sha256,
            host_key_type=presented.key_type,
        )
    require_key(given, presented, to)
    pin_host_key(to=to, key=presented, actor=actor)
    return presented


def require_key(expected_sha256: str, presented: HostKey, to: Destination) -> None:
    """Raise ApplianceError with HOST_KEY_CHANGED if the server presented another key."""
    if presented.sha256 != expected_sha256:
        raise ApplianceError(
            Code.HOST_KEY_CHANGED,
            f"{to.address}:{to.port} presented the key SHA256:{presented.sha256},"
            f" but SHA256:{expected_sha256} was confirmed; nothing was sent."
            " Either the connection is intercepted or the machine was reinstalled."
            " If it was reinstalled, forget the old key: `busbar node forget-key ADDRESS`.",
        )


@write_transaction
def pin_host_key(*, to: Destination, key: HostKey, actor: str) -> None:
    pinned, created = SshHostKey.objects.get_or_create(
        address=to.address,
        port=to.port,
        defaults={"key_type": key.key_type, "sha256": key.sha256, "confirmed_by": actor},
    )
    if created:
        record_created(pinned)
    emit(
        "ssh_host_key.confirmed",
        path=f"ssh/{to.address}",
        actor=actor,
        message=f"Host key of {to.address}:{to.port} confirmed: SHA256:{key.sha256}.",
    )


@write_transaction
def forget_host_key(*, key_id: UUID, actor: str) -> None:
    for key in SshHostKey.objects.filter(pk=key_id):
        record_deleted(key)
        key.delete()
        emit(
            "ssh_host_key.forgotten",
            path=f"ssh/{key.address}",
            actor=actor,
            message=f"Host key of {key.address}:{key.port} forgotten:"
            " the next enrolment must confirm a key.",
        )
