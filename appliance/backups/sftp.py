"""Backups on an SFTP server, whose host key is pinned."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko

from appliance.api.errors import ApplianceError
from appliance.backups.destination import (
    FINAL_NAME,
    PART,
    SftpLogin,
    SftpUrl,
    Stored,
    copy_within,
)
from appliance.backups.errors import BackupError
from appliance.fleet.ssh_keys import fingerprint, parse_private_key
from appliance.fleet.ssh_networks import Network, connect

STEP_SECONDS = 30.0
EVERYWHERE: tuple[Network, ...] = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class SftpFolder:
    def __init__(self, client: paramiko.SFTPClient, path: str) -> None:
        self.client, self.path = client, path

    def _at(self, name: str) -> str:
        return posixpath.join(self.path, name)

    def upload(self, source: Path, name: str) -> None:
        # `confirm` compares the size; the content is read back afterwards.
        self.client.put(str(source), self._at(name + PART), confirm=True)

    def download(self, name: str, target: Path, most: int) -> None:
        size = self.client.stat(self._at(name)).st_size or 0
        with self.client.open(self._at(name), "rb") as source:
            source.prefetch(min(size, most))  # the server may lie
            copy_within(source, target, most)

    def publish(self, name: str) -> None:
        self.client.rename(self._at(name + PART), self._at(name))

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.client.remove(self._at(name))

    def backups(self) -> list[Stored]:
        found = self.client.listdir_attr(self.path)
        return sorted(
            Stored(a.filename, a.st_size or 0)
            for a in found
            if FINAL_NAME.fullmatch(a.filename) and stat.S_ISREG(a.st_mode or 0)
        )


def networks(any_network: bool) -> tuple[Network, ...]:
    if any_network:
        return EVERYWHERE
    from django.conf import settings

    allowed: tuple[Network, ...] = settings.ENVIRONMENT.ssh_networks
    return allowed


@contextmanager
def connected(url: SftpUrl, login: SftpLogin, any_network: bool) -> Iterator[SftpFolder]:
    """Sign in at the server. Raises BackupError, also for errors of the connection later on."""
    try:
        sock = connect(url.host, url.port, STEP_SECONDS, networks(any_network))
        transport = paramiko.Transport(sock)
    except (ApplianceError, paramiko.SSHException, OSError) as error:
        raise BackupError(str(error)) from None
    transport.banner_timeout = transport.handshake_timeout = STEP_SECONDS
    transport.auth_timeout = STEP_SECONDS
    try:
        transport.start_client(timeout=STEP_SECONDS)
        require_host_key(transport, url, login)
        sign_in(transport, url, login)
        client = paramiko.SFTPClient.from_transport(transport)
        assert client is not None
        with client:
            client.get_channel().settimeout(STEP_SECONDS)  # type: ignore[union-attr]
            yield SftpFolder(client, url.path or ".")
    except ApplianceError as error:
        raise BackupError(error.detail) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of a file, here or there
        reason = str(error) or "connection closed"
        raise BackupError(f"The SFTP server {url.host} failed: {reason}.") from None
    finally:
        transport.close()


def sign_in(transport: paramiko.Transport, url: SftpUrl, login: SftpLogin) -> None:
    try:
        if login.private_key:
            key = parse_private_key(login.private_key, "")
            transport.auth_publickey(url.username, key)
        else:
            transport.auth_password(url.username, login.password)
    except paramiko.AuthenticationException:
        raise BackupError(
            f"{url.host} rejected the credentials of user {url.username}; check the settings "
            "backup.sftp_private_key and backup.sftp_password (restore: --ssh-key)."
        ) from None


def require_host_key(transport: paramiko.Transport, url: SftpUrl, login: SftpLogin) -> None:
    found = fingerprint(transport.get_remote_server_key()).sha256
    wanted = login.host_key.removeprefix("SHA256:").rstrip("=")
    if not wanted:
        raise BackupError(
            f"The host key of {url.host} is not known. It shows SHA256:{found}; compare it on that "
            "machine, then set it as backup.sftp_host_key (restore: --host-key)."
        )
    if not hmac.compare_digest(found, wanted):
        raise BackupError(
            f"{url.host} has another host key: SHA256:{found}, not SHA256:{wanted}. Nothing was "
            "sent. Find out why before you trust it."
        )
