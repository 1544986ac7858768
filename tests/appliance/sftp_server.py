"""An SFTP server on 127.0.0.1 that serves one folder, by paramiko."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.sftp import SFTP_OK

USER, PASSWORD = "keeper", "heron-41-quartz"


class Login(paramiko.ServerInterface):
    def __init__(self, key: paramiko.PKey) -> None:
        self.key = key

    def check_auth_password(self, username: str, password: str) -> int:
        good = (username, password) == (USER, PASSWORD)
        return AUTH_SUCCESSFUL if good else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == USER and key.asbytes() == self.key.asbytes()
        return AUTH_SUCCESSFUL if good else AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "password,publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED


class FolderInterface(paramiko.SFTPServerInterface):
    root = Path()

    def _real(self, path: str) -> str:
        return f"{self.root}{self.canonicalize(path)}"

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes] | int:
        try:
            return [
                paramiko.SFTPAttributes.from_stat(entry.stat(), entry.name)
                for entry in os.scandir(self._real(path))
            ]
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(self._real(path)))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    lstat = stat

    def open(
        self, path: str, flags: int, attr: paramiko.SFTPAttributes
    ) -> paramiko.SFTPHandle | int:
        try:
            file = os.fdopen(os.open(self._real(path), flags, 0o600), "rb+" if flags & 3 else "rb")
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        handle = paramiko.SFTPHandle(flags)
        handle.readfile = handle.writefile = file  # type: ignore[attr-defined]
        return handle

    def remove(self, path: str) -> int:
        try:
            os.remove(self._real(path))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return SFTP_OK

    def rename(self, oldpath: str, newpath: str) -> int:
        os.rename(self._real(oldpath), self._real(newpath))
        return SFTP_OK


class Server(NamedTuple):
    url: str
    host_key: paramiko.PKey
    client_key: paramiko.RSAKey
    folder: Path


@contextmanager
def sftp_server(folder: Path) -> Iterator[Server]:
    """Serve a folder to USER, who signs in with PASSWORD or `client_key`."""
    interface = type("Interface", (FolderInterface,), {"root": folder})
    host_key, client_key = paramiko.RSAKey.generate(2048), paramiko.RSAKey.generate(2048)
    transports: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    transport = paramiko.Transport(connection)
                    transport.add_server_key(host_key)
                    transport.set_subsystem_handler("sftp", paramiko.SFTPServer, interface)
                    transport.start_server(event=threading.Event(), server=Login(client_key))
                    transports.append(transport)

        threading.Thread(target=serve, daemon=True).start()
        url = f"sftp://{USER}@127.0.0.1:{listening.getsockname()[1]}/"
        yield Server(url, host_key, client_key, folder)
    for transport in transports:
        transport.close()
