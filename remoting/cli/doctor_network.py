"""Connections of `busbar doctor`: each ends in time, also without a network or a name server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
CONNECT_SECONDS = 5.0
MILLISECONDS = 1000


class Attempt(Generic[T]):
    """A call in a thread of its own, which may outlive it: name servers have no deadline."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: T
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:
            self._error = error

    def result(self, seconds: float) -> T:
        """Block until the call has ended, and return its value or raise its error.

        Raises TimeoutError after `seconds`.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value


def connect(host: str, port: int) -> float:
    """Return the seconds that a TCP connection takes, without the look-up of the name.

    Raises OSError of the last address if none can be reached.
    """
    last: OSError = TimeoutError()
    for family, kind, protocol, _, address in addresses_of(host, port):
        with socket.socket(family, kind, protocol) as connection:
            connection.settimeout(CONNECT_SECONDS)
            begun = time.monotonic()
            try:
                connection.connect(address)
            except OSError as error:
                last = error
                continue
            return time.monotonic() - begun
    raise last


def addresses_of(host: str, port: int) -> list[Any]:
    """Look a name up. Raises OSError, also for a text that cannot be a name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # an empty or too long part of a name
        raise socket.gaierror(socket.EAI_NONAME, "it is no name of a machine") from None


def reason(error: OSError) -> str:
    """Return the end of a sentence that begins with the address."""
    if isinstance(error, socket.gaierror):
        return f"is not found by name ({error.strerror})"
    if isinstance(error, TimeoutError):
        return f"does not answer within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections"
    return f"cannot be reached ({error.strerror or error})"


def shown_seconds(seconds: float) -> str:
    return f"{seconds * MILLISECONDS:.2f} ms"


def shown_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
