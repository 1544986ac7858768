"""The ticket file of a program: a file in memory that ends with the process that holds it.

It contains the private key of the program's sessions. Because it has no name in a file system,
nothing is left behind when `busbar run` is killed.
"""

from __future__ import annotations

import os


class TicketFile:
    """A file in memory. Programs of the same user read it under `path` while this process runs."""

    def __init__(self) -> None:
        self._descriptor = self._write(b"")
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    @staticmethod
    def _write(content: bytes) -> int:
        descriptor = os.memfd_create("busbar-ticket", os.MFD_CLOEXEC)
        os.fchmod(descriptor, 0o600)  # the client library refuses files that others can read
        os.write(descriptor, content)
        return descriptor

    def replace(self, text: str) -> None:
        """Replace the content atomically: a reader gets the old file or the new one."""
        new = self._write(text.encode())
        os.dup2(new, self._descriptor, inheritable=False)
        os.close(new)
