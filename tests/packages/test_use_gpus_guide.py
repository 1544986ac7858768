"""The guide Use GPUs from your machine, on a machine with nothing of ours."""

from __future__ import annotations

import re
from collections.abc import Callable

from deploy.supervisor import ROOT
from tests.packages.guide import section
from tests.packages.installing import Bare
from tests.system.conftest import Pool

SECTIONS = ("Install", "Sign in", "Check", "Terminal")
PROGRAMS = ("bash", "curl", "openssl", "python3")


def commands(heading: str) -> str:
    """Return the commands of a section, without those that need a program of the reader."""
    lines = "".join(section(heading).split("```\n")[1::2]).splitlines()
    return "\n".join(line for line in lines if "train.py" not in line and "-- bash" not in line)


def test_commands_work_in_their_order(stack: Pool, new_machine: Callable[..., Bare]) -> None:
    machine = new_machine(*PROGRAMS)
    machine.write("token", stack.token("ada", "user"))
    script = "set -e\n" + "\n".join(map(commands, SECTIONS))
    for name, real in {
        "https://ADDRESS:8443": stack.stack.url,
        "FINGERPRINT": stack.stack.ca_fingerprint(),
        "--token-stdin": "--token-stdin <token",
    }.items():
        assert name in script
        script = script.replace(name, real)
    done = machine.run("bash", "-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{stack.stack.ca_fingerprint()}  -\n" in done.stdout
    assert "Signed in as ada." in done.stdout
    assert re.search(r"^(ok|warning) +bandwidth: ", done.stdout, re.MULTILINE), done.stdout
    assert "failed" not in done.stdout
    assert "MiB / " in done.stdout


def test_what_the_guide_quotes_is_printed() -> None:
    """The second column of the table has texts of `busbar doctor`."""
    sources = "".join(p.read_text() for p in (ROOT / "remoting" / "cli").glob("doctor_*.py"))
    rows = re.findall(r"^\|.*?\|(.*?)\|", section("When it does not work"), re.MULTILINE)
    quoted = re.findall(r"`([^`]+)`", "".join(rows[2:]))
    assert len(quoted) > 15
    assert [text for text in quoted if text not in sources] == []
