"""Backups on an SFTP server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import paramiko
import pytest
from django.conf import settings

from appliance.backups.destination import PART, SftpLogin, Stored, opened
from appliance.backups.errors import BackupError
from appliance.fleet.ssh_keys import fingerprint
from tests.appliance.sftp_server import PASSWORD, FolderInterface, Server, sftp_server

NAME = "busbar-20261126T010203Z-0123abcd.age"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "served").mkdir()
    with sftp_server(tmp_path / "served") as running:
        yield running


def login(server: Server, **changes: str) -> SftpLogin:
    known = SftpLogin(f"SHA256:{fingerprint(server.host_key).sha256}", password=PASSWORD)
    return known._replace(**changes)


def text_of(key: paramiko.RSAKey) -> str:
    text = io.StringIO()
    key.write_private_key(text)
    return text.getvalue()


def test_file_gets_its_final_name_when_it_is_published(server: Server, tmp_path: Path) -> None:
    (tmp_path / "made").write_bytes(bytes(range(256)) * 1000)
    with opened(server.url, login(server), any_network=True) as destination:
        destination.upload(tmp_path / "made", NAME)
        assert destination.backups() == [] and (server.folder / (NAME + PART)).exists()
        destination.download(NAME + PART, tmp_path / "returned", 256_000)
        assert (tmp_path / "returned").read_bytes() == (tmp_path / "made").read_bytes()
        destination.publish(NAME)
        assert destination.backups() == [Stored(NAME, 256_000)]
        destination.delete(NAME)
        destination.delete(NAME)
    assert not list(server.folder.iterdir())


def test_private_key_signs_in(server: Server) -> None:
    by_key = login(server, password="", private_key=text_of(server.client_key))
    with opened(server.url, by_key, any_network=True) as destination:
        assert destination.backups() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"password": "wrong"}, "rejected the credentials of user keeper"),
        ({"private_key": "no key"}, "private key cannot be read"),
        ({"host_key": ""}, "is not known. It shows SHA256:"),
        ({"host_key": "SHA256:" + "A" * 43}, "another host key.*Nothing was sent"),
    ],
    ids=["password", "key", "unknown", "changed"],
)
def test_wrong_login_or_host_key_is_refused(
    server: Server, changes: dict[str, str], message: str
) -> None:
    with (
        pytest.raises(BackupError, match=message),
        opened(server.url, login(server, **changes), any_network=True),
    ):
        pass


def test_appliance_connects_only_to_networks_for_ssh(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BackupError, match="BUSBAR_SSH_NETWORKS"), opened(server.url, login(server)):
        pass
    allowed = settings.ENVIRONMENT.model_copy(update={"ssh_networks": (ip_network("127.0.0.0/8"),)})
    monkeypatch.setattr(settings, "ENVIRONMENT", allowed)
    with opened(server.url, login(server)) as destination:
        assert destination.backups() == []


def test_broken_connection_is_an_error_of_the_backup(server: Server, tmp_path: Path) -> None:
    with (
        pytest.raises(BackupError, match=r"server 127\.0\.0\.1 failed"),
        opened(server.url, login(server), any_network=True) as destination,
    ):
        destination.client.get_channel().get_transport().close()  # type: ignore[attr-defined]
        destination.backups()


def test_server_that_returns_more_than_was_stored_does_not_fill_the_disk(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (server.folder / NAME).open("wb") as served:
        served.truncate(1 << 26)
    size = paramiko.SFTPAttributes()
    size.st_size = 1 << 62  # a request for each part would fill the memory of the appliance
    monkeypatch.setattr(FolderInterface, "stat", lambda self, path: size)
    with (
        pytest.raises(BackupError, match="more bytes than were stored"),
        opened(server.url, login(server), any_network=True) as destination,
    ):
        destination.download(NAME, tmp_path / "returned", 100_000)
    assert (tmp_path / "returned").stat().st_size <= 100_000
