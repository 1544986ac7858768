"""Conversions to and from pairs of floats of 8, 6 and 4 bits, against a search of all codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.test_matrix import elementwise
from tests.softgpu.test_scaled_matrix import FLOATS, Array, number


def bits(name: str) -> int:
    """Return the bits of a value in a pair."""
    return 4 if name == "e2m1" else 8


def numbers(name: str) -> list[float]:
    """Return the number of each code."""
    return [number(code, name) for code in range(1 << (1 + sum(FLOATS[name])))]


def module(name: str, body: str, inputs: int, in_bytes: int, out_bytes: int) -> str:
    registers = f".reg .b{8 * in_bytes} %x<{inputs}>; .reg .b{8 * out_bytes} %y;"
    return elementwise(body, inputs, in_bytes, out_bytes, registers)


def unpacked(name: str, pairs: Array) -> Array:
    """Return the numbers of pairs, the upper ones first."""
    halves = [pairs.astype(int) >> bits(name), pairs.astype(int) & ((1 << bits(name)) - 1)]
    return np.array([[number(int(code), name) for code in half] for half in halves])


@pytest.mark.parametrize("name", FLOATS)
def test_small_floats_become_halves(tmp_path: Path, name: str) -> None:
    found = np.array(numbers(name))
    codes = np.resize(np.arange(len(found)), 256)
    pair = np.uint8 if name == "e2m1" else np.uint16
    job = {
        "ptx": module(name, f"cvt.rn.f16x2.{name}x2 %y, %x0;", 1, pair(0).itemsize, 4),
        "kernel": "k",
        "grid": 8,
        "block": 32,
        "arrays": [(codes[::-1] << bits(name) | codes).astype(pair), np.zeros(256, np.uint32)],
    }
    (wide,) = run_in_child([job], tmp_path)
    halves = wide[1].view(np.float16).reshape(-1, 2).astype(float)
    np.testing.assert_array_equal(halves[:, 0], found[codes])
    np.testing.assert_array_equal(halves[:, 1], found[codes[::-1]])


def nearest(name: str, v: float) -> float:
    """Return the closest number with a code, by search; of two, the one with the even code.

    NaN becomes the largest number if the format has none.
    """
    found = numbers(name)
    largest = max(n for n in found if np.isfinite(n))
    if np.isnan(v):
        return v if np.isnan(found).any() else largest
    v = max(-largest, min(largest, v))
    return found[
        min((abs(n - v), code & 1, code) for code, n in enumerate(found) if np.isfinite(n))[2]
    ]


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_conversion_to_small_floats_rounds_to_nearest_even(
    tmp_path: Path, name: str, relu: str
) -> None:
    finite = np.unique([n for n in numbers(name) if np.isfinite(n)])
    middles = (finite[:-1] + finite[1:]) / 2
    special = [finite[-1] * 2, -finite[-1] * 9, np.inf, -np.inf, np.nan, 1e-30, 0.0]
    floats = np.concatenate([finite, middles, middles * 1.0001, special]).astype(np.float32)
    floats = np.resize(floats, (len(floats) + 31) // 32 * 32)
    pair = np.uint8 if name == "e2m1" else np.uint16
    body = f"cvt.rn.satfinite{relu}.{name}x2.f32 %y, %x0, %x1;"
    job = {
        "ptx": module(name, body, 2, 4, pair(0).itemsize),
        "kernel": "k",
        "grid": len(floats) // 32,
        "block": 32,
        "arrays": [floats, floats[::-1].copy(), np.zeros(len(floats), pair)],
    }
    (narrow,) = run_in_child([job], tmp_path)
    limited = np.maximum(floats, 0) if relu else floats
    expected = [nearest(name, float(v)) for v in limited]
    np.testing.assert_array_equal(unpacked(name, narrow[2]), [expected, expected[::-1]])
