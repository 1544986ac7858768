"""Contents of memory in tests of suspensions."""

from __future__ import annotations

import hashlib
import random


def contents(count: int, seed: int) -> bytes:
    """Return the bytes of an allocation: random ones, between zeros of a quarter of the size."""
    if not seed:
        return bytes(count)
    zeros = count // 4
    return random.Random(seed).randbytes(zeros) + bytes(zeros) + b"\1" * (count - 2 * zeros)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
