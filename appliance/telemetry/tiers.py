"""Resolutions in which series are stored. Apart from `rollups`, which imports numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tier:
    """A resolution in which series are stored, and for how long."""

    resolution_seconds: int
    """0 for samples as they were received."""
    retention_seconds: int
    chunk_seconds: int
    """The period of one row. Chunks of a coarser tier are built from chunks of the finer one."""


TIERS = (
    Tier(0, 3600, 60),
    Tier(10, 24 * 3600, 600),
    Tier(60, 30 * 86400, 3600),
    Tier(3600, 365 * 86400, 86400),
)
