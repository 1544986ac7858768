#!/usr/bin/env python3
"""Check that docs/development/waits.md lists every blocking call of the data plane.

A row of its tables names a file below remoting/, a call and how often the file makes it, as in
"| `server/worker.cc` | `changed_.wait` | 1 | ...". The check fails if the sources and the rows
differ, so that a new wait gets a waker that does not depend on the waiter (ADR 56).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "development" / "waits.md"
FOLDERS = ("client", "control", "launcher", "server", "transport")
SYSTEM = (
    "accept4|epoll_wait|flock|flockfile|fwrite|nanosleep|poll|pthread_mutex_lock|recvmsg|sendmsg|waitpid"
    "|wait_until"
)
TRANSPORT = "read_all|write_all|connect_tcp|futex_wait|sleep_for|socket_ready"
DRIVER = r"cu_?\.cu\w*Synchronize|cu_?\.cuMemFree|cu_?\.cuMemHost(?:Alloc|Register|Unregister)"
BLOCKING = re.compile(
    r"\w+(?:\.|->)(?:wait|wait_for|wait_until|join)(?=\()"
    rf"|(?<![\w.>])(?:{SYSTEM})(?=\()|(?:{TRANSPORT}|{DRIVER})(?=\()"
)
DEFINITION = re.compile(
    r"^(?:inline |static )*(?:void|bool|int|ssize_t|Fd|CUresult) (?:\w+::)*\w+\("
)
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| (\d+) \|", re.MULTILINE)


def calls(path: Path) -> Counter[tuple[str, str]]:
    name = path.relative_to(ROOT / "remoting").as_posix()
    found: Counter[tuple[str, str]] = Counter()
    for line in path.read_text().splitlines():
        code = line.split("//")[0]
        if not DEFINITION.match(code.strip()):
            found.update((name, call) for call in BLOCKING.findall(code))
    return found


def main() -> int:
    found: Counter[tuple[str, str]] = Counter()
    for folder in FOLDERS:
        for path in sorted((ROOT / "remoting" / folder).rglob("*")):
            if path.suffix in {".cc", ".h"}:
                found += calls(path)
    listed = Counter({(file, call): int(n) for file, call, n in ROW.findall(PAGE.read_text())})
    for (file, call), n in sorted((found - listed).items()):
        print(f"remoting/{file}: {call}: {n} more than in {PAGE.relative_to(ROOT)}")
    for (file, call), n in sorted((listed - found).items()):
        print(f"remoting/{file}: {call}: {n} fewer than in {PAGE.relative_to(ROOT)}")
    return int(found != listed)


if __name__ == "__main__":
    sys.exit(main())
