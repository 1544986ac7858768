"""Shares of one software GPU, from completed work: `./bench partitions` in short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remoting.bench import partitions

SECONDS = 5
TOLERANCE_POINTS = 6.0
"""Other programs of the machine take time from some turns more than from others. Without an arbiter
the error is 18 points and more (docs/benchmarks.md)."""
TRIES = 3
"""Such a program seldom disturbs all of them; a broken arbiter fails each time."""
KERNEL = "20 us"


@pytest.fixture(scope="module")
def bench() -> Iterator[partitions.Bench]:
    with partitions.software_gpu(seconds=SECONDS) as running:
        yield running


@pytest.mark.alone
@pytest.mark.parametrize("percents", [(10, 90), (30, 70), (50, 50), (25, 25, 50)])
def test_tenants_complete_work_in_proportion_to_their_shares(
    bench: partitions.Bench, percents: tuple[int, ...]
) -> None:
    tries = []
    for _ in range(TRIES):
        shares = partitions.share_row(bench, percents, KERNEL)
        assert isinstance(shares["value"], float)
        tries.append(shares["value"])
        if shares["value"] <= TOLERANCE_POINTS:
            return
    pytest.fail(f"share errors of {percents}: {tries} points")


@pytest.mark.alone
def test_capped_tenant_alone_completes_no_more_than_its_percent(bench: partitions.Bench) -> None:
    tries = []
    for _ in range(TRIES):
        (whole,) = bench.rounds_per_second([100], "exclusive", partitions.KERNELS_US[KERNEL])
        (capped,) = bench.rounds_per_second([30], "capped", partitions.KERNELS_US[KERNEL])
        tries.append(100 * capped / whole)
        if 30 - 2 * TOLERANCE_POINTS <= tries[-1] <= 30 + TOLERANCE_POINTS:
            return
    pytest.fail(f"a cap of 30 percent gave {tries} percent")
