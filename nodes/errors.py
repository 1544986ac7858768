"""Error of the agent and the installer."""

from __future__ import annotations


class NodeError(Exception):
    """An error whose message is shown to the user as it is. It says what to do next."""
