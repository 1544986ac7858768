"""Lines of session servers in the log of their node."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.attacker import Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode, b64

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (launcher|spawner): .*")
MAX_BYTES_OF_A_SESSION = 128 << 10


@pytest.fixture(params=["text", "json"])
def node(request: pytest.FixtureRequest) -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER, BUSBAR_LOG_FORMAT=request.param)
    yield node
    node.stop()


@pytest.fixture
def attacker(node: LocalNode, compiled: Callable[[str], Path]) -> Attacker:
    return Attacker(node, compiled("attack_client"))


def lines(node: LocalNode) -> list[str]:
    """Return the messages of the log's complete lines.

    Fails if a line is not one of the launcher or spawner. The last line may be a part of one,
    because the processes write while this reads.
    """
    log = (node.folder / "launcher.log").read_bytes()
    found = log[: log.rfind(b"\n") + 1].decode().splitlines()
    if node.env["BUSBAR_LOG_FORMAT"] == "json":
        return [": ".join([(o := json.loads(line))["logger"], o["message"]]) for line in found]
    assert [line for line in found if not LINE.fullmatch(line)] == []
    return [line.split(" ", 1)[1] for line in found]


def wait_for_end(node: LocalNode) -> None:
    """Wait until the spawner has logged all output of the session that has ended."""
    wait_for(
        "the end",
        lambda: any("launcher: session closed" in line for line in lines(node)),
        node.folder / "launcher.log",
    )


def test_session_that_prints_without_end_fills_no_log_and_forges_no_line(
    node: LocalNode, attacker: Attacker
) -> None:
    assert attacker.results("print 100000", "call 39") == [0, 0]
    wait_for_end(node)
    assert (node.folder / "launcher.log").stat().st_size < MAX_BYTES_OF_A_SESSION
    forged = [line for line in lines(node) if "forged" in line]
    assert forged and all(line.startswith("spawner: session output: pid ") for line in forged)
    assert not any("\x1b" in line or "\r" in line for line in lines(node))


def test_log_has_no_secret(node: LocalNode, attacker: Attacker) -> None:
    assert attacker.results("call 39") == [0]
    wait_for_end(node)
    log = (node.folder / "launcher.log").read_bytes()
    keys = [node.client_key.private_bytes_raw(), node.ticket_key().node_secret]
    secrets = [form for key in keys for form in (key, key.hex().encode(), b64(key).encode())]
    secrets.append(b64(node.ticket())[:60].encode())
    assert [s for s in secrets if s in log] == [] and b"PRIVATE KEY" not in log
