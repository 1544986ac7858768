"""Spare session servers: they are ready, in cages, before a program starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nodes.launcher_control import Partition
from tests.remoting.attacker import Attacker
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode
from tests.remoting.session_servers import session_servers, wait_for_session_servers

GPUS = 3


@pytest.fixture
def attacker(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    """A node with one allocation of three GPUs."""
    partitions = [Partition(gpu, 1 << 30, 50) for gpu in NULL_DRIVER_GPUS[:GPUS]]
    node = LocalNode(NULL_DRIVER, partitions=partitions, NULL_DRIVER_DEVICES=str(GPUS))
    yield Attacker(node, compiled("attack_client"))
    node.stop()


def test_programs_that_start_at_once_find_a_spare_for_each_gpu(attacker: Attacker) -> None:
    node = attacker.node
    wait_for_session_servers(node, GPUS)
    spares = session_servers(node)
    with ExitStack() as running:
        programs = [running.enter_context(attacker.start("call 39", "pause")) for _ in range(GPUS)]
        for program in programs:
            running.callback(program.kill)
            assert program.stdout is not None and program.stdout.readline() == "0\n"
        assert {s.pid for s in node.sessions()} == spares
        wait_for_session_servers(node, 2 * GPUS)


def test_spares_have_their_cage_already(attacker: Attacker) -> None:
    wait_for_session_servers(attacker.node, GPUS)
    spares = session_servers(attacker.node)
    for kind in ("mnt", "pid", "net", "ipc"):
        namespaces = {Path(f"/proc/{pid}/ns/{kind}").readlink() for pid in spares}
        assert len(namespaces) == GPUS
        assert Path(f"/proc/self/ns/{kind}").readlink() not in namespaces


def test_spares_of_an_earlier_spawner_are_replaced(attacker: Attacker) -> None:
    wait_for_session_servers(attacker.node, GPUS)
    attacker.node.restart_spawner()
    assert attacker.results("call 39") == [0]
    wait_for_session_servers(attacker.node, GPUS)
