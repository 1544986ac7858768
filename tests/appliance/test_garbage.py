"""What is set aside is still collected when everything is looked at."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from appliance import garbage


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_a_ring_that_was_set_aside_goes_with_the_next_look_at_everything() -> None:
    garbage.begin()
    ring = Ring()
    gone = weakref.ref(ring)
    garbage.set_aside(everything=False)
    del ring
    gc.collect()
    assert gone() is not None, "it was set aside"
    garbage.set_aside(everything=True)
    assert gone() is None
