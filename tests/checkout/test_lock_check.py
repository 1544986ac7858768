"""Clang's thread-safety analysis reports planted uses of members without their mutex."""

from __future__ import annotations

from pathlib import Path

from tests.checkout.planted import planted_lines, reported_lines

PLANTED = Path(__file__).with_name("planted_locks.cc")


def test_uses_without_the_mutex_are_reported() -> None:
    assert len(planted_lines(PLANTED)) == 6
    assert reported_lines(PLANTED, "clang-diagnostic-thread-safety*") == planted_lines(PLANTED)
