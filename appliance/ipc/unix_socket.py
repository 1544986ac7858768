"""Unix socket files in the data folder, which only the appliance's user can connect to."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a name of the path within the limit of 107 bytes for Unix sockets."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen(path: Path, backlog: int = 1024) -> socket.socket:
    """Return a listening socket with mode 0600. Replaces the file of a killed appliance."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX)
    with short_path(path) as name:
        mask = os.umask(0o177)
        try:
            listening.bind(name)
        finally:
            os.umask(mask)
    listening.listen(backlog)
    return listening
