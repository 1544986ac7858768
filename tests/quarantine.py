"""Tests in quarantine: tests/quarantine.txt, which has lines `YYYY-MM-DD NODE-ID # REASON`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

FILE = Path(__file__).with_name("quarantine.txt")
LINE = re.compile(r"(\d{4}-\d\d-\d\d) (tests/\S+\.py(?:::.+)?) # (\S.*)")


@dataclass(frozen=True)
class Quarantined:
    """A test that failed without a cause in the product, and the day of its failure."""

    since: date
    test: str
    reason: str


def quarantined() -> list[Quarantined]:
    """Return the lines of the file. Raises ValueError for one of another form."""
    found = []
    for line in FILE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if not match:
            raise ValueError(f"tests/quarantine.txt: not `YYYY-MM-DD NODE-ID # REASON`: {line}")
        found.append(Quarantined(date.fromisoformat(match[1]), match[2], match[3]))
    return found
