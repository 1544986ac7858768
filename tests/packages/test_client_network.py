"""The client through a network of 1 Gbit/s and 1 ms, on a machine with nothing of ours."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from deploy.check import Check
from tests.packages.accounts import Account, account, line_of
from tests.packages.remote import DEMOS, Remote
from tests.system.conftest import Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
CLIENTS = 50


class RemoteCheck(Check):
    """The steps of `./run --check`, whose programs run at the other end of the network."""

    def __init__(self, user: Account, pool: Pool) -> None:
        super().__init__(pool.stack, pool.context)
        self.user = user

    def start_run(self, percent: int, *command: str) -> subprocess.Popen[str]:
        names = DEMOS | {sys.executable: "python3"}
        words = shlex.join(names.get(word, word) for word in command)
        return self.user.start(f"busbar run -n 1 -p {percent} --timeout 60s -- {words}")

    def print_output(self, *command: str) -> None:
        here = super().start_run(25, *command)
        there = self.busbar_run(25, *command)
        assert there == here.communicate()[0] != ""


def test_all_of_run_check_passes_with_results_equal_to_those_of_this_machine(
    remote: Remote,
) -> None:
    check = RemoteCheck(remote.user, remote.pool)
    check.run_programs()
    assert len(check.steps) == 9
    assert {name: step for name, step in check.steps.items() if not step["ok"]} == {}


def test_fifty_clients_install_at_once(remote: Remote) -> None:
    users = [account(remote.machine, f"user{number}") for number in range(CLIENTS)]
    running = [user.start(f"{line_of(remote.pool)} && busbar --version") for user in users]
    for process in running:
        out, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        assert out.splitlines()[-1].startswith("busbar "), out
