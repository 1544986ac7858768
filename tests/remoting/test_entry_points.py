"""cuGetProcAddress returns the same function as NVIDIA's driver for recorded runtime requests."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import pytest

from deploy.supervisor import BUILD

RECORDED = Path(__file__).parent / "entry_points.tsv"
"""Requests of CUDA runtimes for functions of the driver, and the runtimes that make each."""
RUNTIMES = (
    "12.1.105",
    "12.4.127",
    "12.6.77",
    "12.8.90",
    "12.9.79",
    "13.0.96",
    "13.1.80",
    "13.2.86",
    "13.3.29",
    "13.4.92",
    "13.5.37",
)


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(BUILD / "client" / "libcuda.so.1"))


def addresses(symbol: str, flags: int) -> set[int | None]:
    """Return the expected addresses; flag 2 selects the per-thread default stream variant."""
    names = [symbol + suffix for suffix in ("_ptsz", "_ptds")] if flags & 2 else []
    own = [n for n in names if hasattr(library(), n)] or [symbol]
    return {ctypes.cast(getattr(library(), n), ctypes.c_void_p).value for n in own}


def requests(runtime: str) -> list[tuple[str, int, int, str]]:
    _, *rows = [line.split("\t") for line in RECORDED.read_text().splitlines()]
    return [
        (name, int(version), int(flags), answer)
        for name, version, flags, answer, runtimes in rows
        if runtime in runtimes.split()
    ]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_entry_points_match_recorded_requests(runtime: str) -> None:
    found, wrong, recorded = ctypes.c_void_p(), [], requests(runtime)
    for name, version, flags, expected in recorded:
        result = library().cuGetProcAddress_v2(
            name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags), None
        )
        if not hasattr(library(), expected):
            assert result == 500 or found.value, name
        elif result or found.value not in addresses(expected, flags):
            wrong.append((name, version, flags, expected))
    assert not wrong, f"{len(wrong)} of {len(recorded)}: {wrong[:5]}"
    assert len(recorded) > 300


def test_unknown_version_or_name_is_not_found() -> None:
    found = ctypes.c_void_p()
    assert (
        library().cuGetProcAddress_v2(
            b"cuInit", ctypes.byref(found), 1000, ctypes.c_uint64(0), None
        )
        == 500
    )
    assert (
        library().cuGetProcAddress_v2(
            b"cuNeverMade", ctypes.byref(found), 13000, ctypes.c_uint64(0), None
        )
        == 500
    )
