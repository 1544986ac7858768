"""One process with two devices: of one node, and of two nodes with one link each."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import Partition
from tests.remoting.node import LocalNode, direct_environment
from tests.remoting.test_conformance import output

GIB = 1 << 30


def is_closed(node: LocalNode) -> bool:
    return node.sessions()[0].state == "closed"


@pytest.fixture
def two_gpus() -> Iterator[LocalNode]:
    node = LocalNode()
    node.partitions = tuple(Partition(gpu, GIB, 50) for gpu in node.gpus)
    node.grant()
    yield node
    node.stop()


@pytest.fixture
def two_nodes() -> Iterator[tuple[LocalNode, LocalNode]]:
    """Two nodes with one GPU each and tickets for the same client key, as in one `busbar run`."""
    first, second = LocalNode(), LocalNode()
    second.client_key = first.client_key
    second.partitions = (Partition(second.gpus[0], GIB, 50),)
    second.grant()
    yield first, second
    first.stop()
    second.stop()


def environment_of(nodes: tuple[LocalNode, LocalNode], **more: str) -> dict[str, str]:
    env = nodes[0].remote_environment(**more)
    path = Path(env["BUSBAR_TICKET_FILE"])
    path.write_text(path.read_text() + "".join(line + "\n" for line in nodes[1].ticket_lines()))
    return env


@pytest.mark.parametrize("arena", ["with arenas", "without arenas"])
def test_two_gpus_of_one_node_behave_like_local_gpus(
    two_gpus: LocalNode, compiled: Callable[[str], Path], tmp_path: Path, arena: str
) -> None:
    program = compiled("two_devices")
    direct = output(program, direct_environment(tmp_path))
    assert "WRONG" not in direct and "devices 2" in direct
    settings = {} if arena == "with arenas" else {"BUSBAR_ARENA": "0"}
    assert output(program, two_gpus.remote_environment(**settings)) == direct


def test_gpus_of_two_nodes_behave_like_local_gpus(
    two_nodes: tuple[LocalNode, LocalNode], compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compiled("two_devices")
    direct = output(program, direct_environment(tmp_path))
    assert output(program, environment_of(two_nodes)) == direct
    for n in two_nodes:
        assert len(n.sessions()) == 1, "each node must have one session"
        wait_for("its end", partial(is_closed, n), n.folder / "launcher.log")


def test_loss_of_a_node_is_reported_as_error(
    two_nodes: tuple[LocalNode, LocalNode], compiled: Callable[[str], Path]
) -> None:
    env = environment_of(two_nodes)
    two_nodes[1].grant(fence=(1, 6))
    done = subprocess.run(
        [compiled("two_devices")], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0 and str(two_nodes[1].node_id) in done.stderr
