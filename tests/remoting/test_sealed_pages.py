"""Native code in a session server cannot write the pages that the launcher writes for it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remoting.attacker import Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode


@pytest.fixture
def attacker(compiled: Callable[[str], Path]) -> Iterator[Attacker]:
    node = LocalNode(NULL_DRIVER)
    yield Attacker(node, compiled("attack_client"))
    node.stop()


@pytest.mark.parametrize("page", ["busbar-turns", "busbar-ledger"])
def test_page_of_the_launcher_cannot_be_written(attacker: Attacker, page: str) -> None:
    """The same attack writes a page of the session's own."""
    own = ("map_page own", "write_page own")
    assert attacker.results(f"write_page {page}", *own) == [errno.EACCES, 0, 0]
