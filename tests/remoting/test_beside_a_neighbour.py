"""Programs compute the same, and end, while a second allocation keeps their GPU busy.

The neighbour takes a core as long as it runs. So the gate runs the programs whose work waits for
other work, over one transport: streams, events, host functions, graphs, memory that is allocated in
the order of streams. `./test --long complete` runs all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remoting.bench.shared_node import SharedNode
from tests.remoting import test_conformance, test_progress
from tests.remoting.modes import MODES
from tests.remoting.neighbour import Neighbour, busy_neighbour
from tests.remoting.node import direct_environment

SECONDS = 600
"""Each wait for the GPU may take a turn of the neighbour."""
IN_GATE = (
    "streams",
    "host_functions",
    "memory",
    "threads",
    "graphs",
    "graph_nodes",
    "graph_ends",
    "graph_conditions",
    "copies",
    "graph_memory",
    "node_params",
    "unified",
    "captures",
    "ipc",
    "memory_is_freed",
    "queue_is_full",
    "output_is_flushed",
    "rows_are_copied",
)
"""Without what compiles, converts or asks for attributes, and what waits for seconds."""
IN_GATE_MODE = "shared memory"


def marks(name: str, mode: str) -> list[pytest.MarkDecorator]:
    return [] if name in IN_GATE and mode == IN_GATE_MODE else [pytest.mark.long]


PROGRAMS = [
    pytest.param(name, mode, marks=marks(str(name), str(mode)))
    for name, mode in (run.values for run in test_conformance.RUNS)
]
CASES = [
    pytest.param(name, mode, marks=marks(name, mode))
    for name in test_progress.CASES
    for mode in MODES
]


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    node = SharedNode()
    with busy_neighbour(node) as found:
        yield found
    node.stop()


@pytest.fixture
def node(neighbour: Neighbour) -> Iterator[SharedNode]:
    """The node of a neighbour that must work, and wait for turns, during the test."""
    with neighbour.beside() as node:
        yield node


def test_neighbour_without_anything_beside_it_is_noticed(neighbour: Neighbour) -> None:
    with pytest.raises(AssertionError, match="for itself"), neighbour.beside():
        pass


@pytest.mark.parametrize(("name", "mode"), PROGRAMS)
def test_output_is_equal_directly_and_beside_a_neighbour(
    node: SharedNode, compiled: Callable[[str], Path], tmp_path: Path, name: str, mode: str
) -> None:
    program = compiled(name)
    direct = test_conformance.output(program, direct_environment(tmp_path))
    env = node.remote_environment(**MODES[mode])
    assert test_conformance.output(program, env, SECONDS) == direct


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_program_ends_beside_a_neighbour(
    node: SharedNode, compiled: Callable[[str], Path], name: str, mode: str
) -> None:
    env = node.remote_environment(**MODES[mode])
    test_progress.assert_case_ends(compiled("progress"), name, env, SECONDS)
