"""Row of `./bench partitions`: processor time of the launcher for the turns of many sessions."""

from __future__ import annotations

import os

from remoting.bench.partitions.rows import Row, row
from remoting.bench.remoting import measure

MOST_PERCENT = 5


def launcher_rows() -> list[Row]:
    """Return the time of 100 sessions on each of 8 GPUs that all want turns."""
    percent = measure("arbiters", dict(os.environ))
    name = "launcher: 8 GPUs, 100 sessions on each"
    more = {"clock": "simulated", "all_gpus_each": percent["all_gpus_each"]}
    return [row(name, "% core", percent["one_gpu_each"], MOST_PERCENT) | more]
