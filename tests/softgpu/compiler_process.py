"""The compiler process of the software GPU, and its messages (remoting/softgpu/jit/messages.h)."""

from __future__ import annotations

import enum
import os
import socket
import struct
import subprocess
from pathlib import Path

from deploy.supervisor import SOFTGPU
from tests.remoting.node import EVENT_SECONDS


class Request(enum.IntEnum):
    DESCRIBE = 1
    COMPILE = 2
    EXAMINE = 3


class Status(enum.IntEnum):
    OK = 0
    INVALID_PTX = 1
    NOT_SUPPORTED = 2
    COMPILER_FAILED = 3
    UNKNOWN_KERNEL = 4
    LIMIT_EXCEEDED = 5


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


class CompilerProcess:
    """A running softgpu-compiler with a kernel cache of its own."""

    def __init__(self, cache: Path, **environment: str) -> None:
        self.socket, end = socket.socketpair()
        self.socket.settimeout(60)
        self.process = subprocess.Popen(
            [str(SOFTGPU / "softgpu-compiler"), str(end.fileno())],
            env=os.environ | {"BUSBAR_SOFTGPU_CACHE": str(cache)} | environment,
            pass_fds=[end.fileno()],
        )
        end.close()

    def request(self, kind: Request, ptx: str, kernel: str = "k") -> tuple[Status, bytes]:
        """Send a request and return the answer. Raises EOFError if the process has ended."""
        body = _text(kernel.encode()) + _text(ptx.encode())
        self.socket.sendall(struct.pack("<QQ", kind, len(body)) + body)
        status, length = struct.unpack("<QQ", self._receive(16))
        return Status(status), self._receive(length)

    def compile(self, ptx: str) -> tuple[Status, bytes]:
        return self.request(Request.COMPILE, ptx)

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def translator(self) -> int:
        """Return the pid of the process that reads PTX. There is one after the first request."""
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def stop(self) -> None:
        self.socket.close()
        self.process.wait(EVENT_SECONDS)
