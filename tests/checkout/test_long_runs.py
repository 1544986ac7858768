"""The lists of the long runs name the same ones."""

from __future__ import annotations

import re
import subprocess

from deploy.supervisor import ROOT
from tests.suites import release

OUTSIDE = {"release", "suite", "torch"}
"""The run of all others, and those that need a checkout."""


def test_script_help_and_guide_have_every_part_of_a_release() -> None:
    (line,) = re.findall('^LONG="(.*)"$', (ROOT / "test").read_text(), re.MULTILINE)
    assert set(line.split()) == set(release.LONG) | OUTSIDE
    shown = subprocess.check_output([ROOT / "test", "--help"], text=True)
    guide = (ROOT / "docs" / "development" / "testing.md").read_text()
    (section,) = re.findall(r"^## Long runs\n(.*?)^## ", guide, re.MULTILINE | re.DOTALL)
    for name in line.split():
        assert (ROOT / "tests" / "suites" / f"{name}.py").exists()
        assert re.search(rf"\b{name}\b", shown.partition("--long NAME")[2])
        assert re.search(rf"\b{name}\b", section)
