"""What a client may send has an end: at, over and far over it, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.remoting.conftest import cuda_include
from tests.suites.fuzz import GENERATED, REMOTING, SSL, TRANSPORT, in_folder


def test_each_limit_holds_at_over_and_far_over(tmp_path: Path) -> None:
    sources = (REMOTING / "fuzz" / "limits.cc", *in_folder("server", without="main.cc"), *TRANSPORT)
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
