"""Boot ids of the agents, to notice two agents with the same identity.

An agent keeps its boot id from its start to its end. If boot A connects again after boot B, then
both agents run at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KEPT_BOOTS = 16
"""Latest boots of each node."""
RETURNS = 2
"""Connections of a boot after another one that prove a second agent.

A single one may be a connection that arrived late.
"""


@dataclass
class Boots:
    latest: list[str] = field(default_factory=list)
    """In order of their last connection."""
    returns: int = 0


class BootHistory:
    def __init__(self) -> None:
        self._boots: dict[bytes, Boots] = {}

    def connect(self, node: bytes, boot_id: str) -> bool:
        """Record a connection. Return whether it proves a second agent of the node."""
        boots = self._boots.setdefault(node, Boots())
        if boot_id in boots.latest:
            boots.returns += boots.latest[-1] != boot_id
            boots.latest.remove(boot_id)
        boots.latest = [*boots.latest[1 - KEPT_BOOTS :], boot_id]
        return boots.returns >= RETURNS

    def forget(self, node: bytes) -> None:
        self._boots.pop(node, None)
