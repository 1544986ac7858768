"""The number of file descriptors in use, which status and log show."""

from __future__ import annotations

import subprocess
import sys

USE_ALL = """
import os, resource
from appliance.runtime import descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
used = descriptors.in_use()
held = []
try:
    while True:
        held.append(os.dup(0))
except OSError:
    pass
assert used < descriptors.in_use() == descriptors.limit() == 64
"""


def test_exhausted_descriptors_are_all_in_use() -> None:
    subprocess.run([sys.executable, "-c", USE_ALL], check=True, timeout=60)
