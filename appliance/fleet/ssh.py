"""One machine over SSH: its host key, signing in, and a program of ours that speaks in lines. Everything here blocks."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import shlex
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appliance.errors import ApplianceError, Code

if TYPE_CHECKING:
    import paramiko

MARK = b"BUSBAR "
MAX_LINE_BYTES = 1 << 20
READY_SECONDS = 30.0
SUDO = "sudo -k -S -p '' --"

FIND_PYTHON = """right='import sys, tarfile, zipfile, ssl, ctypes; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'
say='import json, os, sys; print("BUSBAR " + json.dumps({"python": sys.executable, "version": "%d.%d" % sys.version_info[:2], "uid": os.getuid()}))'
for p in python3 python3.13 python3.12 python3.11 python3.10; do
  command -v $p >/dev/null 2>&1 && $p -c "$right" 2>/dev/null && { $p -c "$say"; exit 0; }
done
echo 'BUSBAR {"python": ""}'"""

# Runs as root on the machine: takes a tar from stdin into a private folder, runs our program from it, leaves nothing behind.
BOOTSTRAP = """
import json, os, shutil, signal, sys, tarfile, tempfile
def quit(n, f): sys.exit(75)
for s in (signal.SIGHUP, signal.SIGTERM, signal.SIGALRM): signal.signal(s, quit)
class Part:
    def __init__(self, n): self.left = n
    def read(self, n):
        signal.alarm(60); data = sys.stdin.buffer.read(min(n, self.left)); self.left -= len(data); return data
print('BUSBAR {"ready": true}', flush=True)
signal.alarm(60)
line = b""
while not line.startswith(b"BUSBAR-BEGIN "):
    line = sys.stdin.buffer.readline()
    if not line: sys.exit(75)
folder = tempfile.mkdtemp(prefix="busbar-")
try:
    part = Part(int(line.split()[1]))
    with tarfile.open(fileobj=part, mode="r|") as t:
        for m in t: t.extract(m, folder)
    while part.left and part.read(65536): pass
    if part.left: sys.exit(75)
    signal.alarm(0)
    sys.path.insert(0, folder)
    from nodes import installation
    code = installation.main([a.replace("@BUNDLE", folder) for a in sys.argv[1:]])
except OSError as e:
    print("BUSBAR " + json.dumps({"error": "%s: %s" % (type(e).__name__, e)}), flush=True); code = 1
finally:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(code)
"""


@dataclass(frozen=True)
class Destination:
    address: str
    port: int
    username: str

    def __str__(self) -> str:
        return f"{self.username}@{self.address}:{self.port}"


@dataclass(frozen=True)
class Credentials:
    """Live in this process's memory only; never shown."""

    password: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    use_agent: bool = False
    sudo_password: str = field(default="", repr=False)


@dataclass(frozen=True)
class HostKey:
    key_type: str
    sha256: str


def fingerprint(key: paramiko.PKey) -> HostKey:
    return HostKey(
        key.get_name(),
        base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("="),
    )


@contextlib.contextmanager
def handshake(to: Destination, seconds: float) -> Iterator[tuple[paramiko.Transport, HostKey]]:
    """A transport whose server has proved a host key; nobody is signed in yet."""
    import paramiko  # here: its 15 MB are needed only when a machine is registered

    try:
        sock = socket.create_connection((to.address, to.port), timeout=seconds)
    except OSError as error:
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            f"{to.address} does not answer on TCP {to.port}: {error}. Check address, port and firewall.",
        ) from None
    transport = paramiko.Transport(sock)
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = seconds
    try:
        transport.start_client(timeout=seconds)
        if not transport.initial_kex_done:  # start_client returns after its time, with nothing said
            raise TimeoutError(f"no SSH handshake within {seconds:.0f} s")
        yield transport, fingerprint(transport.get_remote_server_key())
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            f"The SSH connection to {to.address}:{to.port} failed: {error or 'it was cut'}.",
        ) from None
    finally:
        transport.close()


def read_key(text: str, passphrase: str) -> paramiko.PKey:
    import paramiko  # here: its 15 MB are needed only when a machine is registered

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with contextlib.suppress(paramiko.SSHException, ValueError, IndexError, TypeError):
            key: paramiko.PKey = kind.from_private_key(
                io.StringIO(text), password=passphrase or None
            )
            return key
    raise ApplianceError(
        Code.SIGN_IN_REFUSED,
        "The private key cannot be read: it must be in OpenSSH or PEM form, and its passphrase right.",
    )


def sign_in(transport: paramiko.Transport, to: Destination, credentials: Credentials) -> None:
    import paramiko  # here: its 15 MB are needed only when a machine is registered

    try:
        if credentials.private_key:
            transport.auth_publickey(
                to.username, read_key(credentials.private_key, credentials.passphrase)
            )
        elif credentials.use_agent:
            sign_in_with_agent(transport, to.username)
        else:
            transport.auth_password(to.username, credentials.password)
    except paramiko.AuthenticationException:
        raise ApplianceError(
            Code.SIGN_IN_REFUSED,
            f"{to.address} refused to sign {to.username} in; check user name and credentials.",
        ) from None


def sign_in_with_agent(transport: paramiko.Transport, username: str) -> None:
    import paramiko  # here: its 15 MB are needed only when a machine is registered

    for key in paramiko.Agent().get_keys():
        with contextlib.suppress(paramiko.AuthenticationException):
            transport.auth_publickey(username, key)
            return
    raise paramiko.AuthenticationException("no key of the agent")


class Lines:
    """A command's output: our lines as objects; what a shell prints besides is passed over."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel = channel
        self._rest = b""
        self.noise = b""

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next line of ours; None when the command has ended. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                if line.startswith(MARK):
                    with contextlib.suppress(ValueError):
                        content: dict[str, Any] = json.loads(line[len(MARK) :])
                        return content
                self._note(line + b"\n")
                continue
            self.channel.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.channel.recv(65536)
            except TimeoutError:
                raise TimeoutError from None
            if not data:
                self._note(self._rest)
                return None
            self._rest = (self._rest + data)[-MAX_LINE_BYTES:]

    def _note(self, data: bytes) -> None:
        self.noise = (self.noise + data)[-2000:]

    def last_words(self) -> str:
        """What the command said that was not for us: the reason when it failed."""
        with contextlib.suppress(TimeoutError, OSError):
            self.channel.settimeout(1.0)
            self._note(self.channel.recv_stderr(4096))
        lines = [text for text in self.noise.decode(errors="replace").splitlines() if text.strip()]
        return lines[-1][:300] if lines else ""


@dataclass(frozen=True)
class Host:
    """A machine that let us in, and the Python that was found there."""

    transport: paramiko.Transport
    python: str
    version: str
    is_root: bool


def find_python(transport: paramiko.Transport, seconds: float) -> Host:
    channel = transport.open_session(timeout=seconds)
    with contextlib.closing(channel):
        channel.exec_command(f"/bin/sh -c {shlex.quote(FIND_PYTHON)}")
        try:
            found = Lines(channel).next(READY_SECONDS)
        except TimeoutError:
            found = None
    if not found:
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            "The machine let us in and then ran no command; its shell may be restricted.",
        )
    if not found["python"]:
        raise ApplianceError(
            Code.PREFLIGHT_FAILED,
            "The machine has no Python from 3.10 to 3.13; install one (Debian, Ubuntu: apt-get install python3).",
        )
    return Host(transport, found["python"], found["version"], found["uid"] == 0)


@contextlib.contextmanager
def our_program(
    host: Host, credentials: Credentials, tar: bytes, arguments: list[str]
) -> Iterator[Lines]:
    """Runs nodes.installation as root there, out of the tar. Leaving the block closes its stdin, which it takes as the end."""
    channel = host.transport.open_session(timeout=READY_SECONDS)
    with contextlib.closing(channel):
        line = shlex.join([host.python, "-B", "-I", "-c", BOOTSTRAP, *arguments])
        channel.exec_command(line if host.is_root else f"{SUDO} {line}")
        lines = Lines(channel)
        if not host.is_root:
            channel.sendall((credentials.sudo_password or credentials.password).encode() + b"\n")
        wait_until_ready(lines, host.is_root)
        channel.settimeout(READY_SECONDS)
        channel.sendall(b"BUSBAR-BEGIN %d\n" % len(tar) + tar)
        yield lines


def wait_until_ready(lines: Lines, is_root: bool) -> None:
    """sudo asks for another password by reading on: closing its input ends that."""
    try:
        ready = lines.next(READY_SECONDS / 3)
    except TimeoutError:
        lines.channel.shutdown_write()
        ready = None
    if not ready or not ready.get("ready"):
        why = lines.last_words()
        advice = (
            ""
            if is_root
            else " The user must be allowed to run commands as root with sudo, and its password must be right."
        )
        raise ApplianceError(
            Code.SIGN_IN_REFUSED,
            f"Commands cannot be run as root there{': ' + why if why else ''}.{advice}",
        )
