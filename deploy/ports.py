"""Ports of a stack. A data folder keeps those of its first start: logins and nodes know them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

PORTS_TO_TRY = 200
MAX_PORT = 65535
DEFAULT_PORT = 8443
RECORD = "ports.json"
LISTENS = "0A"
"""State of a socket in /proc/net/tcp."""


@dataclass(frozen=True)
class Ports:
    https: int
    fleet: int

    def record(self, data: Path) -> None:
        """Let the next starts with this data folder use the same ports."""
        temporary = data / f"{RECORD}.new"
        with temporary.open("w") as file:
            file.write(json.dumps(asdict(self)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(data / RECORD)


def choose_ports(data: Path, named: int | None, address: str) -> Ports:
    """Return the ports of a stack, which are free now. Says on stderr if port 8443 is not.

    `named` is the HTTPS port that the user asks for. Raises SystemExit if that port is taken, or
    one that the data folder has recorded, or if there is no free one.
    """
    recorded = recorded_ports(data)
    if recorded is not None and named in (None, recorded.https):
        for port in (recorded.https, recorded.fleet):
            if not is_free(port, address):
                raise held(
                    port,
                    f"Saved logins and nodes know the data folder {data} by its ports, so ./run"
                    " chooses no others. Stop that process, or move with --port PORT: users then"
                    " sign in again, and other machines are enrolled again.",
                )
        return recorded
    if named is not None and not is_free(named, address):
        raise held(named, "Stop that process, or name another port with --port.")
    if recorded is not None:
        print(
            f"The data folder {data} moves from port {recorded.https} to port {named}: users sign"
            " in again, and other machines are enrolled again.",
            file=sys.stderr,
        )
    https = named or first_https_port(data, address)
    return Ports(https, free_port(https + 1, address))


def first_https_port(data: Path, address: str) -> int:
    """Return the HTTPS port of a new data folder, and say on stderr if it is not the usual one."""
    https = free_port(DEFAULT_PORT, address)
    if https != DEFAULT_PORT:
        print(
            f"Port {DEFAULT_PORT} is held by {holder_of(DEFAULT_PORT)}. The data folder {data} gets"
            f" port {https} and keeps it.",
            file=sys.stderr,
        )
    return https


def recorded_ports(data: Path) -> Ports | None:
    """Return the ports of the earlier starts with a data folder, if there were any."""
    try:
        content = json.loads((data / RECORD).read_text())
        return Ports(content["https"], content["fleet"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        raise SystemExit(
            f"{data / RECORD} is damaged. It has the ports of this data folder, as in"
            ' {"https": 8443, "fleet": 8444}. Write it again, or remove it to have ports chosen.'
        ) from None


def held(port: int, remedy: str) -> SystemExit:
    """Return the refusal to start, because a port is taken."""
    return SystemExit(f"Port {port} is held by {holder_of(port)}. {remedy}")


def is_free(port: int, address: str) -> bool:
    """Return whether a port can be bound.

    Raises SystemExit if the address is not one of this machine.
    """
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            if error.errno == errno.EACCES:
                raise SystemExit(
                    f"Only root may listen on port {port}. Choose another one with --port."
                ) from None
            raise SystemExit(
                f"Cannot listen on {address}: {error.strerror}. "
                "Choose an IPv4 address of this machine with --listen."
            ) from None
        return True


def free_port(wanted: int, address: str) -> int:
    """Return the first of 200 ports from `wanted` on that can be bound. Does not reserve it.

    Raises SystemExit if all are in use, or if the address is not one of this machine.
    """
    for port in range(wanted, min(wanted + PORTS_TO_TRY, MAX_PORT + 1)):
        if is_free(port, address):
            return port
    raise SystemExit(
        f"All ports from {wanted} to {wanted + PORTS_TO_TRY - 1} on {address} are in use. "
        "Choose another one with --port."
    )


def holder_of(port: int) -> str:
    """Return pid and name of the process that listens on a TCP port, if this user may see it."""
    sockets = listening_sockets(port)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # of another user, or it has ended
            for descriptor in os.listdir(process / "fd"):
                if os.readlink(process / "fd" / descriptor) in sockets:
                    return f"pid {process.name} ({(process / 'comm').read_text().strip()})"
    return "a process of another user" if sockets else "the system"


def listening_sockets(port: int) -> set[str]:
    """Return the names of sockets that listen on a TCP port, as links of descriptors show them."""
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # without IPv6
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                number = int(fields[1].rpartition(":")[2], 16)
                if (number, fields[3]) == (port, LISTENS):
                    found.add(f"socket:[{fields[9]}]")
    return found
