"""Limits of client input at, above and far above the limit, with address and UB sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.remoting.conftest import cuda_include
from tests.suites.fuzz_targets import (
    GENERATED,
    IMAGES,
    LEDGER,
    REMOTING,
    SSL,
    TRANSPORT,
    sources_in,
)


def test_limits_hold_at_above_and_far_above(tmp_path: Path) -> None:
    sources = (
        REMOTING / "fuzz" / "limits.cc",
        *sources_in("server", without="main.cc"),
        REMOTING / "cache_quota.cc",
        *IMAGES,
        *LEDGER,
        *TRANSPORT,
    )
    flags = [
        "-std=c++20",
        "-O1",
        "-g1",
        "-fsanitize=address,undefined",
        "-fno-sanitize=function,alignment,vptr,enum",
        "-DBUSBAR_NVIDIA_RUNTIME",
    ]
    folders = [f"-I{REMOTING}", f"-I{GENERATED}", "-isystem", str(cuda_include())]
    subprocess.run(
        ["clang++", *flags, *folders, *map(str, sources), "-o", str(tmp_path / "limits"), *SSL],
        check=True,
    )
    env = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [tmp_path / "limits"], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count(": ok") == 22
