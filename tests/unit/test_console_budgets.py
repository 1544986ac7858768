"""Budgets of what the console loads before its first page."""

from __future__ import annotations

import gzip
import re

from deploy.supervisor import ROOT

DIST = ROOT / "frontend" / "dist"
MAX_BYTES = {"js": 300_000, "css": 100_000}


def test_console_keeps_the_budgets_of_its_initial_load() -> None:
    page = (DIST / "index.html").read_text()
    loaded = dict.fromkeys(MAX_BYTES, 0)
    for path, kind in re.findall(r'(?:src|href)="(/[^"]+\.(js|css))"', page):
        loaded[kind] += len(gzip.compress((DIST / path[1:]).read_bytes()))
    assert all(loaded.values()), "the page names its scripts and styles"
    assert {k: size for k, size in loaded.items() if size > MAX_BYTES[k]} == {}
