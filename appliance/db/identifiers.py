"""UUIDv7 (RFC 9562): identifiers whose order is the order of creation."""

from __future__ import annotations

import os
import threading
import time
import uuid
from datetime import datetime

_lock = threading.Lock()
_last_ms = 0
_counter = 0


def uuid7() -> uuid.UUID:
    """Return an identifier that is greater than all earlier ones of this process."""
    global _last_ms, _counter
    with _lock:
        now = time.time_ns() // 1_000_000
        if now <= _last_ms:
            _counter += 1
            if _counter > 0xFFF:
                _last_ms, _counter = _last_ms + 1, 0
        else:
            _last_ms, _counter = now, 0
        ms, counter = _last_ms, _counter
    tail = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    return uuid.UUID(int=(ms << 80) | (0x7 << 76) | (counter << 64) | (0b10 << 62) | tail)


def first_id_at(at: datetime) -> uuid.UUID:
    """Return an identifier that is not greater than any that was made at this time or later."""
    return uuid.UUID(int=int(at.timestamp() * 1000) << 80)
