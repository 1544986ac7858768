"""A TCP proxy that delays, cuts or blocks connections."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time


class FaultyProxy:
    """Forwards a port of 127.0.0.1 to another one.

    `reply_delay_seconds` delays the first bytes from the server. After `cut_after_bytes` bytes to
    the server the connection is closed, and `was_cut` is set; cut() resets all. Between
    lose_network() and restore_network() no byte passes, and attempts to connect get no answer.
    """

    def __init__(
        self,
        target_port: int,
        *,
        reply_delay_seconds: float = 0.0,
        cut_after_bytes: int | None = None,
    ) -> None:
        self._target_port = target_port
        self._delay = reply_delay_seconds
        self._cut_after = cut_after_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.was_cut = threading.Event()
        self._network = threading.Event()
        self._network.set()
        self._backlog: list[socket.socket] = []
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_network(self) -> None:
        """The kernel drops attempts to connect once the backlog is full."""
        self._network.clear()
        self._listener.listen(0)
        with contextlib.suppress(TimeoutError):
            while True:
                self._backlog.append(socket.create_connection(("127.0.0.1", self.port), 0.3))

    def restore_network(self) -> None:
        for s in self._backlog:
            s.close()
        self._network.set()

    def cut(self) -> None:
        """Reset all connections."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                self._network.wait()
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                return
            self._ends += [client, server]
            threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
            threading.Thread(
                target=self._forward, args=(server, client, False), daemon=True
            ).start()

    def _forward(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        forwarded, first = 0, True
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if first and not to_server:
                    time.sleep(self._delay)
                first = False
                self._network.wait()
                sink.sendall(data)
                forwarded += len(data)
                if to_server and self._cut_after is not None and forwarded > self._cut_after:
                    self.was_cut.set()
                    break
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def close(self) -> None:
        self._listener.close()
