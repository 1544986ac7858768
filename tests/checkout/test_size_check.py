"""The check of sizes of clang-tidy reports planted products and sums, and no checked ones."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.supervisor import ROOT
from tests.checkout.planted import planted_lines, reported_lines

PLANTED = Path(__file__).with_name("planted_sizes.cc")


def test_unchecked_products_and_sums_are_reported() -> None:
    assert len(planted_lines(PLANTED)) == 5
    assert reported_lines(PLANTED, "") == planted_lines(PLANTED)


def test_check_covers_the_code_that_reads_values_of_clients() -> None:
    text = (ROOT / "remoting" / ".clang-tidy").read_text()
    for folder in ("server", "launcher", "spawner", "images", "api", "driver", "device", "client"):
        assert re.search(rf"remoting/\([^\n]*\b{folder}\b", text), folder
