"""The client connection of a request, which the acceptor of the HTTP server tracks."""

from __future__ import annotations

from typing import Any, Protocol


class ClientConnection(Protocol):
    def authenticate(self, account: str) -> None:
        """Record that a valid token of this account was presented on this connection."""

    def begin_request(self) -> None:
        """Record that the head of a request has arrived."""

    def end_request(self) -> None:
        """Record that the response was sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class UntrackedConnection:
    """Connection of a request that did not come through the acceptor."""

    def authenticate(self, account: str) -> None:
        """Do nothing."""

    def begin_request(self) -> None:
        """Do nothing."""

    def end_request(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


UNTRACKED = UntrackedConnection()


def connection_of(scope: dict[str, Any]) -> ClientConnection:
    """Return the connection of an ASGI scope."""
    found: ClientConnection = scope.get("state", {}).get("connection", UNTRACKED)
    return found
