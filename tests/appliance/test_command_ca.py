"""The CA of the appliance in a file, as the guide fetches it for programs without a sign-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.supervisor import ROOT, first_fingerprint
from tests.appliance.appliance_process import started

GUIDE = ROOT / "docs" / "guides" / "people.md"
BUSBAR = f'busbar() {{ {sys.executable} -m remoting.cli.main "$@"; }}'


def commands() -> str:
    """Return the commands of the guide up to the program, which is replaced by `busbar whoami`."""
    text = GUIDE.read_text()
    begin = text.index("curl ", text.index("A job needs no stored credentials"))
    lines = text[begin : text.index("busbar run", begin)].splitlines()
    block = [line for line in lines if line.startswith(("curl", "openssl", "export"))]
    return "\n".join(["set -e", BUSBAR, *block, "busbar whoami"])


def test_commands_of_the_guide_work_as_printed(tmp_path: Path) -> None:
    with started(tmp_path) as appliance:
        token = appliance.manage("create_token", "--role", "user", "--hours", "1")
        script = commands().replace("https://appliance.example.org:8443", appliance.url)
        done = subprocess.run(
            ["/bin/bash", "-c", script.replace("bb_...", token)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        fingerprint = first_fingerprint(appliance.data / "ca.pem")
    assert done.returncode == 0, done.stderr
    assert fingerprint in done.stdout and "allocations.create" in done.stdout, done.stdout
