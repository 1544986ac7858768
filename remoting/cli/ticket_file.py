"""The ticket file of a program: a file in memory that ends with the processes that hold it.

It contains the private key of the program's sessions. Because it has no name in a file system,
nothing is left behind when `busbar run` is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import resource
from pathlib import Path

FIRST_DESCRIPTOR = 100
"""Shell scripts use lower ones for files of their own."""
TICKET_NAME = "busbar-ticket"
"""Name of the file in memory, which /proc shows."""
ALLOCATION_LINE = "allocation"
"""Keyword of the line with the id of the allocation. Client libraries skip it."""


class TicketFile:
    """A file in memory, whose readers see later changes.

    Programs of the same user read it under `path` while this process runs. A program that inherits
    `descriptor` finds it by the number in that path where /proc does not show this process: in a
    PID namespace of its own.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create(TICKET_NAME, os.MFD_CLOEXEC)
        os.fchmod(self._file, 0o600)  # the client library refuses files that others can read
        reader = os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY)
        least = min(FIRST_DESCRIPTOR, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self.descriptor = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, least)
        os.close(reader)
        self.path = f"/proc/{os.getpid()}/fd/{self.descriptor}"
        self._read_at = self._read_time()
        """Time of this process's last read, or of the creation."""

    def replace(self, text: str) -> None:
        """Replace the content. A reader that gets a part of it finds the checksum wrong."""
        checksum = hashlib.sha256(text.encode()).hexdigest()
        self.write(f"sum {checksum}\n{text}".encode())

    def write(self, content: bytes) -> None:
        written = 0
        while written < len(content):
            written += os.pwrite(self._file, content[written:], written)
        os.ftruncate(self._file, len(content))

    def _read_time(self) -> int:
        return os.fstat(self._file).st_atime_ns

    def was_read(self) -> bool:
        """Return whether a program has read the file; True where reads leave no trace."""
        before = self._read_time()
        if before != self._read_at:
            return True
        os.pread(self._file, 1, 0)
        self._read_at = self._read_time()
        return self._read_at == before

    def close(self) -> None:
        os.close(self._file)
        os.close(self.descriptor)


def allocation_in(path: str) -> str:
    """Return the id of the allocation of a ticket file; empty if it cannot be read.

    In another PID namespace the path may name another process's terminal or pipe.
    """
    try:
        lines = Path(path).read_text().splitlines() if Path(path).is_file() else []
    except (OSError, ValueError):
        return ""
    return next((line.split()[-1] for line in lines if line.startswith(f"{ALLOCATION_LINE} ")), "")
