"""`./bench partitions`: the measurement notices shares that do not hold."""

from __future__ import annotations

import pytest

from remoting.bench import partitions


@pytest.mark.alone
def test_benchmark_notices_that_shares_are_not_enforced() -> None:
    with partitions.software_gpu(seconds=1) as bench:
        equal = partitions.share_row(bench, (50, 50), "2 ms")
        unequal = partitions.share_row(bench, (10, 90), "2 ms")
    assert isinstance(equal["value"], float) and isinstance(unequal["value"], float)
    assert equal["value"] < 15
    assert not unequal["met"] and unequal["value"] > 15
