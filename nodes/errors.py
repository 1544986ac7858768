"""The agent's one error family: what retrying may mend, and what it cannot."""

from __future__ import annotations


class NodeError(Exception):
    """Said to a person as it stands; the sentence says what to do next."""


class Transient(NodeError):
    """The appliance or the launcher is away; the agent tries again."""
