#!/usr/bin/env python3
"""Check tests/quarantine.txt: at most ten tests that exist, none for more than 14 days."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.quarantine import quarantined

MAX_TESTS = 10
MAX_AGE = timedelta(days=14)


def main() -> None:
    lines = quarantined()
    problems = [
        f"{line.test} is in quarantine for more than {MAX_AGE.days} days: mend or delete it."
        for line in lines
        if date.today() - line.since > MAX_AGE
    ]
    problems += [
        f"{line.test}: the file does not exist."
        for line in lines
        if not (ROOT / line.test.partition("::")[0]).exists()
    ]
    if len(lines) > MAX_TESTS:
        problems.append(f"{len(lines)} tests are in quarantine; at most {MAX_TESTS} may be.")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
