"""Rights of a node's processes when root starts them without systemd."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from deploy.supervisor import ROOT
from nodes.privileges import SPAWNER_CAPABILITIES
from nodes.service import UNPRIVILEGED_ID

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")

PROGRAM = """
import json, subprocess
from nodes.privileges import give_up_root, pass_to_spawner
give_up_root({user})
show = ["/bin/cat", "/proc/self/status"]
run = lambda prepare: subprocess.run(show, preexec_fn=prepare, capture_output=True, text=True)
print(json.dumps([run(lambda: None).stdout, run(pass_to_spawner).stdout]))
"""
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def rights_of_children() -> list[dict[str, str]]:
    """Return the status of a child without and with the spawner's capabilities."""
    code = PROGRAM.format(user=UNPRIVILEGED_ID)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = json.loads(done.stdout)
    return [
        {name: value.strip() for name, _, value in (line.partition(":") for line in t.splitlines())}
        for t in texts
    ]


def test_only_the_spawner_has_capabilities_and_nothing_is_root() -> None:
    other, spawner = rights_of_children()
    mask = sum(1 << number for number in SPAWNER_CAPABILITIES.values())
    assert [int(other[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")] == [0, 0, 0]
    assert [int(spawner[name], 16) for name in SETS] == [mask] * len(SETS)
    for status in (other, spawner):
        assert status["NoNewPrivs"] == "1" and int(status["CapBnd"], 16) == mask
        assert set(status["Uid"].split() + status["Gid"].split()) == {str(UNPRIVILEGED_ID)}
        assert status["Groups"] == ""
