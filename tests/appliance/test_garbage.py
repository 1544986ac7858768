"""A full collection also collects the garbage among the objects that were set aside."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from appliance.runtime import garbage_collection


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
    garbage_collection.start_collection_policy()
    ring = Ring()
    gone = weakref.ref(ring)
    garbage_collection.freeze_survivors(full_collection=False)
    del ring
    gc.collect()
    assert gone() is not None, "it was set aside"
    garbage_collection.freeze_survivors(full_collection=True)
    assert gone() is None
