"""The launcher takes the grants of a whole node, and those beside one that it cannot use."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nodes.launcher_control import Grant, Partition
from tests.remoting.attacker import Attacker
from tests.remoting.node import LocalNode

EARLIER_LIMIT = 1024


def grant_beside(node: LocalNode, *others: Grant) -> None:
    """Apply the node's own grant behind others."""
    grants = node.grants()
    node.control.apply(replace(grants, grants=(*others, *grants.grants)))


def is_served(node: LocalNode, program: Path) -> bool:
    return Attacker(node, program).results("call 39") == [0]


def test_launcher_takes_more_grants_than_1024(
    null_node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    share = (Partition(null_node.gpus[1], 1 << 20, 1),)
    fence = null_node.fence
    others = [Grant(uuid.uuid4(), uuid.uuid4(), *fence, share) for _ in range(EARLIER_LIMIT)]
    null_node.allocation_id = uuid.uuid4()  # granted by this message only
    grant_beside(null_node, *others)
    assert is_served(null_node, compiled("attack_client"))


def test_grant_without_partitions_is_left_out(
    null_node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    useless = Grant(uuid.uuid4(), uuid.uuid4(), *null_node.fence, ())
    null_node.allocation_id = uuid.uuid4()
    grant_beside(null_node, useless)
    assert is_served(null_node, compiled("attack_client"))
    log = (null_node.folder / "launcher.log").read_text()
    assert f"grant left out: {useless.allocation_id.hex}: 0 partitions" in log
