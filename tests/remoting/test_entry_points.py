"""Every entry point that NVIDIA's runtimes ask for, by the list of what each asked: the same function must be handed back."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import pytest

from deploy.supervisor import BUILD

LISTS = sorted((Path(__file__).parent / "getproc").glob("*.tsv"))
GRAPHICS = ("GL", "EGL", "VDPAU")


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(BUILD / "client" / "libcuda.so.1"))


def addresses(symbol: str, flags: int) -> set[int | None]:
    """With flag 2 the form for the per-thread default stream is meant, where there is one."""
    names = [symbol + suffix for suffix in ("_ptsz", "_ptds")] if flags & 2 else []
    own = [n for n in names if hasattr(library(), n)] or [symbol]
    return {ctypes.cast(getattr(library(), n), ctypes.c_void_p).value for n in own}


def requests(path: Path) -> list[tuple[str, int, int, str]]:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [
        (name, int(version), int(flags), given)
        for name, version, flags, given in rows
        if flags.isdigit()
    ]


@pytest.mark.parametrize("path", LISTS, ids=[p.stem for p in LISTS])
def test_a_runtime_is_given_the_functions_it_asks_for(path: Path) -> None:
    found, wrong, asked = ctypes.c_void_p(), [], requests(path)
    for name, version, flags, given in asked:
        result = library().cuGetProcAddress_v2(
            name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags), None
        )
        if any(g in name for g in GRAPHICS) or not hasattr(library(), given):
            assert result == 500 or found.value, name
        elif result or found.value not in addresses(given, flags):
            wrong.append((name, version, flags, given))
    assert not wrong, f"{len(wrong)} of {len(asked)}: {wrong[:5]}"
    assert len(asked) > 300


def test_the_lists_cover_the_runtimes_that_we_support() -> None:
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


def test_a_version_that_does_not_exist_yet_is_not_found() -> None:
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
