"""Replacement of the node's credentials, also by a process that is killed at any step."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import PublicFormat

from appliance.fleet.certificates import Authority, load_authority, sign_node_certificate
from nodes.credentials import (
    CURRENT,
    PREFIX,
    Credentials,
    load_credentials,
    store_credentials,
    store_renewed,
    version_in_force,
)
from nodes.enrolment import NewKeys
from nodes.errors import NodeError

NODE_ID = uuid.UUID("0b2f7a70-8a5b-4b4e-9c1e-0d6b7f4f1a11")
MAX_STEPS = 200


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_authority(tmp_path)


def new_credentials(authority: Authority, name: str) -> Credentials:
    keys, response = NewKeys(), {}
    for purpose, csr in (("agent", keys.agent_csr), ("launcher", keys.launcher_csr)):
        certificate = sign_node_certificate(authority, csr, NODE_ID, purpose)
        response[purpose] = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return keys.credentials(
        {
            "node_id": str(NODE_ID),
            "node_name": name,
            "fleet_address": "127.0.0.1:1",
            "appliance_url": "https://127.0.0.1:2",
            "ca_pem": authority.pem,
            "agent_pem": response["agent"],
            "launcher_pem": response["launcher"],
        }
    )


def store_and_die_at_step(folder: Path, credentials: Credentials, step: int) -> bool:
    """Store in a child that is killed before its file operation number `step`.

    Return whether it was killed, and did not end first.
    """
    child = os.fork()
    if child == 0:
        left = step

        def die_in_time(event: str, _arguments: object) -> None:
            nonlocal left
            if event == "open" or event.startswith(("os.", "shutil.")):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die_in_time)
        store_credentials(folder, credentials)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def public_key_of(private_pem: bytes) -> bytes:
    key = serialization.load_pem_private_key(private_pem, None).public_key()
    return key.public_bytes(serialization.Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def test_crash_at_any_step_leaves_old_or_new_credentials(
    authority: Authority, tmp_path: Path
) -> None:
    old, new = new_credentials(authority, "old"), new_credentials(authority, "new")
    outcomes = []
    for step in range(1, MAX_STEPS):
        folder = tmp_path / str(step)
        store_credentials(folder, old)
        killed = store_and_die_at_step(folder, new, step)
        found = load_credentials(folder)
        assert found in (old, new), f"step {step}"
        outcomes.append(found == new)
        if not killed:
            break
        store_credentials(folder, new)
        assert load_credentials(folder) == new, f"the crash at step {step} prevents a repetition"
        assert [p.name for p in folder.glob(f"{PREFIX}*")] == [version_in_force(folder)]
    else:
        raise AssertionError(f"more than {MAX_STEPS} steps")
    assert outcomes == sorted(outcomes) and len(outcomes) > 10
    assert outcomes[0] is False and outcomes[-1] is True


def test_stored_keys_match_their_certificates_and_are_private(
    authority: Authority, tmp_path: Path
) -> None:
    store_credentials(tmp_path / "node", new_credentials(authority, "a"))
    found = load_credentials(tmp_path / "node")
    assert found is not None
    certificate_key = found.agent_certificate.public_key().public_bytes(
        serialization.Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    assert public_key_of(found.agent_key) == certificate_key
    files = [*(tmp_path / "node").rglob("*"), tmp_path / "node"]
    assert all(p.lstat().st_mode & 0o077 == 0 for p in files if not p.is_symlink())


def test_machine_without_credentials_is_not_enrolled(tmp_path: Path) -> None:
    assert load_credentials(tmp_path) is None


def test_damaged_credentials_are_reported(authority: Authority, tmp_path: Path) -> None:
    store_credentials(tmp_path, new_credentials(authority, "a"))
    (tmp_path / CURRENT / "agent.key").unlink()
    with pytest.raises(NodeError, match="enrol the machine again"):
        load_credentials(tmp_path)


def test_renewal_does_not_undo_an_enrolment_that_began_later(
    authority: Authority, tmp_path: Path
) -> None:
    store_credentials(tmp_path, new_credentials(authority, "old"))
    version, enrolled = version_in_force(tmp_path), new_credentials(authority, "enrolled again")
    store_credentials(tmp_path, enrolled)
    with pytest.raises(NodeError, match="replaced during the renewal"):
        store_renewed(tmp_path, new_credentials(authority, "renewed"), version)
    assert load_credentials(tmp_path) == enrolled
