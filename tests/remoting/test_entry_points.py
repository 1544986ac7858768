"""cuGetProcAddress returns the same function as NVIDIA's driver for recorded runtime requests."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import pytest

from deploy.supervisor import BUILD

LISTS = sorted((Path(__file__).parent / "getproc").glob("*.tsv"))


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(BUILD / "client" / "libcuda.so.1"))


def addresses(symbol: str, flags: int) -> set[int | None]:
    """Return the expected addresses; flag 2 selects the per-thread default stream variant."""
    names = [symbol + suffix for suffix in ("_ptsz", "_ptds")] if flags & 2 else []
    own = [n for n in names if hasattr(library(), n)] or [symbol]
    return {ctypes.cast(getattr(library(), n), ctypes.c_void_p).value for n in own}


def requests(path: Path) -> list[tuple[str, int, int, str]]:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [
        (name, int(version), int(flags), expected)
        for name, version, flags, expected in rows
        if flags.isdigit()
    ]


@pytest.mark.parametrize("path", LISTS, ids=[p.stem for p in LISTS])
def test_entry_points_match_recorded_requests(path: Path) -> None:
    found, wrong, recorded = ctypes.c_void_p(), [], requests(path)
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


def test_recorded_requests_cover_supported_runtimes() -> None:
    stems = " ".join(p.stem for p in LISTS)
    assert all(
        v in stems
        for v in (
            "12.1",
            "12.4",
            "12.6",
            "12.8",
            "12.9",
            "13.0",
            "13.1",
            "13.2",
            "13.3",
            "13.4",
            "13.5",
        )
    )


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
