"""The chart of `./bench partitions --chart`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from remoting.bench.partitions.resize_chart import Recording, shares, svg
from remoting.bench.partitions.tenants import Sample, Work

KEPT, OTHER, THIRD = 1, 2, 3
"""Pages of session servers."""


def sample(seconds: int, **blocks: int) -> Sample:
    pages = {"kept": KEPT, "other": OTHER, "third": THIRD}
    return Sample(seconds * 10**9, {pages[name]: Work(n, 0) for name, n in blocks.items()})


def test_percents_are_of_the_work_between_two_samples() -> None:
    found = [
        sample(0, kept=100, other=100),
        sample(1, kept=145, other=155),
        sample(2, kept=190, other=190, third=20),
        sample(3, kept=235, other=225, third=40),
    ]
    assert list(shares(found, [KEPT, OTHER])) == [[45, 55, 0], [45, 35, 20], [45, 35, 20]]


def test_third_tenant_is_drawn_between_the_changes_only() -> None:
    recording = Recording([1.0, 2.0, 3.0, 4.0], [[45, 55, 0], *[[45, 35, 20]] * 3], [1.5, 3.5])
    curves = re.findall('<polyline points="([^"]*)"', svg(recording))
    assert [len(curve.split()) for curve in curves] == [4, 4, 2]
    drawn = ET.fromstring(svg(recording))
    names = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert names[-3:] == ["45 %", "55 %, then 35 %", "20 %"]
