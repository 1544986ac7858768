"""SSH connection to a machine: host key, authentication and the installer's line protocol.

All functions block.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.conf import settings

from appliance.api.errors import ApplianceError, Code
from appliance.api.parsing import parse_json
from appliance.fleet.installer_messages import parse_python
from appliance.fleet.ssh_keys import HostKey, fingerprint, parse_private_key
from appliance.fleet.ssh_networks import connect
from appliance.fleet.ssh_scripts import BOOTSTRAP, FIND_PYTHON, LINE_PREFIX, SUDO

# paramiko is imported inside functions: its 15 MB are needed only while a machine is enrolled.
if TYPE_CHECKING:
    import paramiko

MAX_LINE_BYTES = 1 << 20
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Destination:
    address: str
    port: int
    username: str

    def __str__(self) -> str:
        return f"{self.username}@{self.address}:{self.port}"


@dataclass(frozen=True)
class Credentials:
    """SSH and sudo credentials. Held in memory only, never stored or logged."""

    password: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    use_agent: bool = False
    sudo_password: str = field(default="", repr=False)


@contextlib.contextmanager
def open_transport(to: Destination, seconds: float) -> Iterator[tuple[paramiko.Transport, HostKey]]:
    """Yield an unauthenticated transport and the host key that the server has proved.

    `seconds` limits each step of the handshake. Connection errors inside the block are raised
    as ApplianceError with HOST_UNREACHABLE, too. Raises ApplianceError with ADDRESS_NOT_ALLOWED
    for an address outside of the permitted networks.
    """
    import paramiko

    sock = connect(to.address, to.port, seconds, settings.ENVIRONMENT.ssh_networks)
    transport = paramiko.Transport(sock)
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = seconds
    try:
        transport.start_client(timeout=seconds)
        if not transport.initial_kex_done:  # start_client returns without an error on a timeout
            raise TimeoutError(f"no SSH handshake within {seconds:.0f} s")
        yield transport, fingerprint(transport.get_remote_server_key())
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            f"The SSH connection to {to.address}:{to.port} failed: {error or 'connection closed'}.",
        ) from None
    finally:
        transport.close()


def sign_in(transport: paramiko.Transport, to: Destination, credentials: Credentials) -> None:
    """Authenticate with the private key, the SSH agent or the password, in this order.

    Raises ApplianceError with SIGN_IN_REFUSED if the server rejects them.
    """
    import paramiko

    try:
        if credentials.private_key:
            transport.auth_publickey(
                to.username, parse_private_key(credentials.private_key, credentials.passphrase)
            )
        elif credentials.use_agent:
            sign_in_with_agent(transport, to.username)
        else:
            transport.auth_password(to.username, credentials.password)
    except paramiko.AuthenticationException:
        raise ApplianceError(
            Code.SIGN_IN_REFUSED,
            f"{to.address} rejected the credentials of user {to.username};"
            " check username and credentials.",
        ) from None


def sign_in_with_agent(transport: paramiko.Transport, username: str) -> None:
    import paramiko

    for key in paramiko.Agent().get_keys():
        with contextlib.suppress(paramiko.AuthenticationException):
            transport.auth_publickey(username, key)
            return
    raise paramiko.AuthenticationException("no accepted key in the SSH agent")


def message_in(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line of output, or None for other output."""
    if line.startswith(LINE_PREFIX):
        with contextlib.suppress(ValueError):
            content = parse_json(line[len(LINE_PREFIX) :])
            return content if isinstance(content, dict) else None
    return None


class MessageReader:
    """Reads the installer's messages, lines `BUSBAR {json}`, from a command's output.

    Other output, such as a banner of the shell, is collected for error messages.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel
        self._rest = b""
        self._other_output = b""

    def next(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message, or None when the command has ended.

        Raises TimeoutError after `seconds`, also while other output arrives.
        """
        end = time.monotonic() + seconds
        while True:
            if time.monotonic() > end:
                raise TimeoutError
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                if (message := message_in(line)) is not None:
                    return message
                self._collect(line + b"\n")
                continue
            self.channel.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.channel.recv(65536)
            except TimeoutError:
                raise TimeoutError from None
            if not data:
                self._collect(self._rest)
                return None
            self._rest = (self._rest + data)[-MAX_LINE_BYTES:]

    def _collect(self, data: bytes) -> None:
        self._other_output = (self._other_output + data)[-2000:]

    def last_error_line(self) -> str:
        """Return the last line of other output, including stderr; empty if there is none."""
        with contextlib.suppress(TimeoutError, OSError):
            self.channel.settimeout(1.0)
            self._collect(self.channel.recv_stderr(4096))
        output = self._other_output.decode(errors="replace")
        lines = [text for text in output.splitlines() if text.strip()]
        return lines[-1][:300] if lines else ""


@dataclass(frozen=True)
class Host:
    """An authenticated connection to a machine, and the Python found on it."""

    transport: paramiko.Transport
    python: str
    """Path of the interpreter."""
    version: str
    is_root: bool


def find_python(transport: paramiko.Transport, seconds: float) -> Host:
    """Find a supported Python on the machine.

    Raises ApplianceError with HOST_UNREACHABLE if no command runs, PREFLIGHT_FAILED if there is
    no supported Python.
    """
    channel = transport.open_session(timeout=seconds)
    with contextlib.closing(channel):
        channel.exec_command(f"/bin/sh -c {shlex.quote(FIND_PYTHON)}")
        try:
            found = MessageReader(channel).next(READY_SECONDS)
        except TimeoutError:
            found = None
    if not found:
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            "The machine accepted the sign-in but ran no command; its shell may be restricted.",
        )
    python, version, is_root = parse_python(found)
    if not python:
        raise ApplianceError(
            Code.PREFLIGHT_FAILED,
            "The machine has no Python from 3.10 to 3.13;"
            " install one (Debian, Ubuntu: apt-get install python3).",
        )
    return Host(transport, python, version, is_root)


@contextlib.contextmanager
def run_installer(
    host: Host, credentials: Credentials, tar: bytes, arguments: list[str]
) -> Iterator[MessageReader]:
    """Run `nodes.installation` from the tar as root and yield a reader of its messages.

    Leaving the block closes the program's stdin. The program then rolls back unless it has
    received the commit.
    """
    channel = host.transport.open_session(timeout=READY_SECONDS)
    with contextlib.closing(channel):
        line = shlex.join([host.python, "-B", "-I", "-c", BOOTSTRAP, *arguments])
        channel.exec_command(line if host.is_root else f"{SUDO} {line}")
        reader = MessageReader(channel)
        if not host.is_root:
            channel.sendall((credentials.sudo_password or credentials.password).encode() + b"\n")
        wait_until_ready(reader, host.is_root)
        channel.settimeout(READY_SECONDS)
        channel.sendall(b"BUSBAR-BEGIN %d\n" % len(tar) + tar)
        yield reader


def wait_until_ready(reader: MessageReader, is_root: bool) -> None:
    """Wait for the ready message of BOOTSTRAP.

    Closes stdin after 10 s, because sudo reads another password from it after a wrong one.
    """
    try:
        ready = reader.next(READY_SECONDS / 3)
    except TimeoutError:
        reader.channel.shutdown_write()
        ready = None
    if not ready or not ready.get("ready"):
        reason = reader.last_error_line()
        advice = "" if is_root else " The user needs sudo rights and the correct sudo password."
        raise ApplianceError(
            Code.SIGN_IN_REFUSED,
            f"Commands cannot be run as root on the machine{': ' + reason if reason else ''}."
            f"{advice}",
        )
