"""Names, arrays and logs that do not fit in one record: results as without remoting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import ROOT
from tests.remoting.modes import MODES
from tests.remoting.node import EVENT_SECONDS, LocalNode, direct_environment

NOT_FOUND = 500
TRANSPORTS = ("shared memory", "TLS")


@pytest.fixture(params=["direct", *TRANSPORTS])
def env(request: pytest.FixtureRequest, node: LocalNode, tmp_path: Path) -> dict[str, str]:
    if request.param == "direct":
        return direct_environment(tmp_path)
    return node.remote_environment(**MODES[request.param])


def outcome(env: dict[str, str], action: str, size: int) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.remoting.large_calls", action, str(size)],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("size", [100, 4096, 20_000, 70_000, 300_000])
def test_names_have_any_length(env: dict[str, str], size: int) -> None:
    assert outcome(env, "names", size) == [[0] * 8, 4, 9, True]


@pytest.mark.parametrize("size", [4096, 1 << 20, (1 << 20) + 1, 40 << 20])
def test_unknown_name_of_any_length_is_not_found(env: dict[str, str], size: int) -> None:
    assert outcome(env, "missing", size) == [NOT_FOUND, NOT_FOUND]


def test_node_depends_on_more_nodes_than_fit_in_a_record(env: dict[str, str]) -> None:
    assert outcome(env, "dependencies", 9000) == [[0] * 7, 18_000]


@pytest.mark.parametrize("mode", TRANSPORTS)
def test_log_has_the_size_of_the_buffer(node: LocalNode, tmp_path: Path, mode: str) -> None:
    directly = outcome(direct_environment(tmp_path), "log", 50_000)
    assert len(directly[1]) > 50_000
    assert outcome(node.remote_environment(**MODES[mode]), "log", 50_000) == directly


def test_more_inputs_are_linked_than_fit_in_a_record(env: dict[str, str]) -> None:
    assert outcome(env, "link", 3000) == [[0]]
