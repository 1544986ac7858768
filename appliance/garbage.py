"""When the cyclic garbage collector looks at everything.

By itself it does so several times a minute, and with the series and rooms of eight thousand GPUs in memory each look stops the process for 0.2 to 0.4 s. Almost
all that lives long is no garbage, so it is set aside every minute, and looked at once an hour.
"""

from __future__ import annotations

import asyncio
import gc

SET_ASIDE_SECONDS = 60.0
EVERYTHING_EVERY = 60
"""Minutes."""
YOUNG, MIDDLE, OLD = 20_000, 20, 1_000_000
"""New objects until the young ones are looked at; that so often until those of middle age are; the old ones never by themselves."""


def begin() -> None:
    """After start: what is there now stays."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    gc.collect()
    gc.freeze()


def set_aside(everything: bool) -> None:
    if everything:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


async def keep_away() -> None:
    """Runs as long as the process."""
    minute = 0
    while True:
        await asyncio.sleep(SET_ASIDE_SECONDS)
        minute += 1
        set_aside(everything=minute % EVERYTHING_EVERY == 0)
