"""The slices in which `./bench partitions` compares programs."""

from __future__ import annotations

from remoting.bench.partitions.slices import Slices
from remoting.bench.partitions.tenants import Work, sample_of


def test_work_of_a_process_is_of_all_gpus() -> None:
    def gpu(*blocks: int) -> dict[str, object]:
        others = {"executed_nanoseconds": 1, "busy_nanoseconds": 2, "copied_bytes": 3}
        processes = [{"file": n, "executed_blocks": b} | others for n, b in enumerate(blocks)]
        return {"monotonic_nanoseconds": 5, "processes": processes}

    sample = sample_of([gpu(10, 20), gpu(1, 0)])
    assert sample.nanoseconds == 5
    assert sample.work == {0: Work(11, 2, 4, 6), 1: Work(20, 2, 4, 6)}


def test_slices_are_compared_in_pairs() -> None:
    """The machine is half as fast in the last two slices of both."""
    whole, part = Slices([100, 100, 50, 50], []), Slices([30, 31, 15, 15], [])
    assert part.of(whole) == 0.3
    assert whole.spread == 100 * 50 / 75
