"""Child processes of the controller, connected by socket pairs."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

SEND_TIMEOUT_SECONDS = 5
SOURCE_FOLDER = Path(__file__).resolve().parents[2]
MEMORY_SETTINGS = {"MALLOC_ARENA_MAX": "2"}
"""By default each of many threads gets a malloc arena that keeps freed memory."""


def start(
    arguments: Callable[[int], Sequence[str]],
    inherited: Sequence[int] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process and return it with our end of its socket pair.

    `arguments` makes its command line from the descriptor of its end, and `environment` has
    additional variables. The process imports this source tree regardless of the current folder.
    """
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(filter(None, [str(SOURCE_FOLDER), os.environ.get("PYTHONPATH")]))
    with theirs:
        process = subprocess.Popen(
            arguments(theirs.fileno()),
            pass_fds=[theirs.fileno(), *inherited],
            env=os.environ | {"PYTHONPATH": path, **MEMORY_SETTINGS, **environment},
        )
    return process, ours


def shut_down(connection: socket.socket) -> None:
    """End the connection from any thread: a blocked reader sees the end of the stream."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def set_send_timeout(connection: socket.socket) -> None:
    """Let `sendall` raise OSError when the peer does not read for SEND_TIMEOUT_SECONDS."""
    timeout = struct.pack("ll", SEND_TIMEOUT_SECONDS, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
