"""A TCP road with trouble on it: slow, cut after so many bytes, or silent."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class Road:
    """Carries one port to another. `answer_delay_seconds` before the first byte back; `cut_after_bytes` to the server and the road is gone."""

    def __init__(
        self, to_port: int, *, answer_delay_seconds: float = 0.0, cut_after_bytes: int | None = None
    ) -> None:
        self._to, self._delay, self._cut = to_port, answer_delay_seconds, cut_after_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.was_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        carried, first = 0, True
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if first and not to_server:
                    time.sleep(self._delay)  # the trouble itself, not a wait of the test
                first = False
                sink.sendall(data)
                carried += len(data)
                if to_server and self._cut is not None and carried > self._cut:
                    self.was_cut.set()
                    break
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def close(self) -> None:
        self._listener.close()
