#!/usr/bin/env python3
"""Check commit messages: an imperative subject of at most 72 characters, an empty line, a body.

With a file name, check the message in it (the commit-msg hook). Without one, check every commit
since BASE.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BASE = "eb7807d"
"""Older commits do not follow the rule."""
MAX_SUBJECT = 72
NOT_IMPERATIVE = re.compile(r"^\w+(ed|ing|s)$")
IMPERATIVE = re.compile(r"^(\w+ss|\w*(focus|bring|string|ping|embed|feed|need|speed|shed|alias))$")
"""Verbs whose base form ends like another form."""
TRAILER = re.compile(r"^[A-Z][A-Za-z-]+: ")
GENERATED = re.compile(r"^(Merge|Revert|fixup!|squash!)\b")


def problems(message: str) -> list[str]:
    """Return what is wrong with a message; comment lines do not count."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines:
        return ["the message is empty"]
    subject, rest = lines[0], lines[1:]
    if GENERATED.match(subject):
        return []
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; at most {MAX_SUBJECT}")
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    word = subject.split()[0].lower()
    if not subject[0].isupper():
        found.append("the subject does not start with a capital letter")
    if NOT_IMPERATIVE.match(word) and not IMPERATIVE.match(word):
        found.append(f'the subject does not start with a verb in the imperative (was: "{word}")')
    if rest and rest[0].strip():
        found.append("the second line is not empty")
    if not any(line.strip() and not TRAILER.match(line) for line in rest):
        found.append("there is no body that says why")
    return found


def commits() -> list[str]:
    """Return the hashes since BASE, or the newest one where BASE is not in the history."""
    for revisions in (["^" + BASE, "HEAD"], ["-1", "HEAD"]):
        listed = subprocess.run(
            ["git", "rev-list", "--no-merges", *revisions],
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode == 0:
            return listed.stdout.split()
    raise SystemExit(listed.stderr)


def main() -> int:
    if len(sys.argv) > 1:
        messages = {"commit message": Path(sys.argv[1]).read_text()}
    else:
        messages = {
            commit[:9]: subprocess.run(
                ["git", "show", "-s", "--format=%B", commit],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for commit in commits()
        }
    failed = False
    for name, message in messages.items():
        for problem in problems(message):
            subject = message.strip().splitlines()[0] if message.strip() else ""
            print(f"{name}: {problem}: {subject}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
