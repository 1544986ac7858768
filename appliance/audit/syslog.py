"""Syslog messages of audit records (RFC 5424), over TLS (RFC 5425) and to the local socket."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path

import orjson

from appliance.audit.models import AuditRecord, Outcome
from appliance.audit.wire import record_as_json

FACILITY_AUDIT = 13
NOTICE, WARNING = 5, 4
APPLICATION = "busbar"
TIMEOUT_SECONDS = 5.0


def message_of(record: AuditRecord, host: str) -> bytes:
    """Return the message of a record: its JSON follows the header of RFC 5424."""
    severity = WARNING if record.outcome == Outcome.REFUSED else NOTICE
    priority = FACILITY_AUDIT * 8 + severity
    time = record.created_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    header = f"<{priority}>1 {time} {host} {APPLICATION} - audit - "
    return header.encode() + orjson.dumps(record_as_json(record))


def frame(message: bytes) -> bytes:
    """Return the message with its length in front (RFC 5425)."""
    return b"%d %s" % (len(message), message)


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class SyslogServer:
    """A TLS connection to a syslog server, opened at the first use and kept.

    Not thread-safe. Syslog has no acknowledgement: messages that the server had not read when the
    connection ended are lost.
    """

    def __init__(self, address: str, authority: Path | None) -> None:
        self._address = split_address(address)
        self._authority = authority
        self._connection: ssl.SSLSocket | None = None

    def send(self, records: Iterable[AuditRecord]) -> None:
        """Send records. Blocks for 5 s at most. Raises OSError and closes the connection."""
        host = socket.gethostname()[:255] or "-"
        content = b"".join(frame(message_of(record, host)) for record in records)
        try:
            if self._connection is None or has_ended(self._connection):
                self.close()
                self._connection = self._open()
            self._connection.sendall(content)
        except OSError:
            self.close()
            raise

    def _open(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self._authority)
        raw = socket.create_connection(self._address, TIMEOUT_SECONDS)
        try:
            return context.wrap_socket(raw, server_hostname=self._address[0])
        except OSError:
            raw.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def has_ended(connection: ssl.SSLSocket) -> bool:
    """Return whether the server has closed the connection. A syslog server sends nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except ssl.SSLWantReadError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(TIMEOUT_SECONDS)


def send_hash(path: Path, sequence: int, newest_hash: str) -> bool:
    """Send the newest hash of the chain to the local syslog. Return False without its socket."""
    text = f"<{FACILITY_AUDIT * 8 + NOTICE}>{APPLICATION}: audit: {sequence=} sha256={newest_hash}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client, contextlib.suppress(OSError):
        client.settimeout(TIMEOUT_SECONDS)
        client.sendto(text.encode(), str(path))
        return True
    return False
