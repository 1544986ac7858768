"""Sections and examples of the guide Use GPUs from your machine, as they are printed."""

from __future__ import annotations

import re

from deploy.supervisor import ROOT
from tests.system.conftest import Pool

GUIDE = (ROOT / "docs" / "guides" / "use-gpus.md").read_text()


def section(heading: str) -> str:
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


def examples(heading: str, language: str) -> list[str]:
    """Return the examples of a section in a language, which is empty for commands."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section(heading), re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def example(heading: str, language: str) -> str:
    """Return the first example of a section."""
    return examples(heading, language)[0]


def assert_ran_on_quarter(pool: Pool, output: str) -> None:
    whole = pool.api.items("gpus")[0]["memory_bytes"]
    assert f'"total_bytes": {whole * 25 // 100 // (2 << 20) * (2 << 20)}' in output, output
