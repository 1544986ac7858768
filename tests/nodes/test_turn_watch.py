"""Sessions that use more of a GPU than they have turns for, as NVML shows it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pynvml
import pytest

from nodes.gpus import Gpu, Nvml
from nodes.launcher_control import Grant, Partition, SessionList
from nodes.launcher_layouts import UNKNOWN_SHARE, ShareRecord
from nodes.messages import COMPUTE_LIMIT, encode_session
from nodes.turn_watch import COMPARISONS, TOLERANCE_PERCENT, TurnWatch, with_bypasses
from tests.nodes.test_memory_watch import FakeGpus
from tests.remoting.node import NULL_DRIVER_GPUS
from tests.session_reports import SESSION

GPU = NULL_DRIVER_GPUS[0]
ALLOCATION = uuid.uuid4()
GRANT = Grant(ALLOCATION, uuid.uuid4(), 1, 1, (Partition(GPU, 1 << 30, 30),))
IN_TURNS = replace(SESSION, allocation_id=ALLOCATION, enforcement="turns")
RECEIVED, MOST = 30.0, 30.0 + TOLERANCE_PERCENT
TEST_GPU = Gpu(GPU, 0, "Test GPU", 80 << 30, "9.0")


def listed(
    received: float | None = RECEIVED, *enforcements: str, states: Sequence[str] = ("running",)
) -> SessionList:
    """Return one session for each enforcement; without one, a session in turns."""
    share = UNKNOWN_SHARE if received is None else round(received * 100)
    sessions = tuple(
        replace(IN_TURNS, session_id=uuid.UUID(int=i), pid=77 + i, enforcement=how, state=state)
        for i, (how, state) in enumerate(product(enforcements or ("turns",), states))
    )
    return SessionList(1, 8445, sessions, shares=(ShareRecord(ALLOCATION.bytes, (share,)),))


def found(watch: TurnWatch, used: float, answer: SessionList | None = None) -> set[int]:
    """Return the sessions that are found, each of which uses `used` percent."""
    answer = answer or listed()
    watch.observe(answer)
    use = {s.pid: used for s in answer.sessions}
    return {session.int for session in watch.compare({GPU: use}, answer, [GRANT])}


def test_use_beyond_the_turns_is_found() -> None:
    watch = TurnWatch()
    results = [found(watch, MOST + 1) for _ in range(COMPARISONS + 1)]
    assert results == [set()] * (COMPARISONS - 1) + [{0}, {0}]


def test_use_within_the_tolerance_is_no_bypass() -> None:
    watch = TurnWatch()
    assert not any(found(watch, MOST) for _ in range(2 * COMPARISONS))


def test_samples_of_bursts_are_compared_by_their_mean() -> None:
    watch = TurnWatch()
    assert not any(found(watch, 100.0 if i % 3 == 0 else 0.0) for i in range(2 * COMPARISONS))


def test_what_the_sessions_of_an_allocation_use_is_added() -> None:
    watch, answer = TurnWatch(), listed(RECEIVED, "turns", "sliced", "coarse")
    results = [found(watch, MOST / 3 + 1, answer) for _ in range(COMPARISONS)]
    assert results[-1] == {0, 1, 2}


@pytest.mark.parametrize(
    "moment",
    [
        listed(RECEIVED, "alone"),
        listed(RECEIVED, "turns", "unenforced"),
        listed(None),
        listed(states=["closed"]),
    ],
)
def test_allocation_that_was_not_in_turns_begins_again(moment: SessionList) -> None:
    watch = TurnWatch()
    for _ in range(COMPARISONS - 1):
        assert not found(watch, 100.0)
    assert not found(watch, 100.0, moment)
    results = [found(watch, 100.0) for _ in range(COMPARISONS)]
    assert results == [set()] * (COMPARISONS - 1) + [{0}]


def test_moment_alone_between_two_comparisons_is_observed() -> None:
    watch = TurnWatch()
    for _ in range(COMPARISONS - 1):
        assert not found(watch, 100.0)
    watch.observe(listed(RECEIVED, "alone"))
    assert not found(watch, 100.0)


def test_gpu_without_figures_is_not_compared() -> None:
    watch = TurnWatch()
    for _ in range(2 * COMPARISONS):
        assert not watch.compare({}, listed(), [GRANT])


def test_found_session_is_reported_with_the_reason() -> None:
    other = replace(IN_TURNS, session_id=uuid.uuid4())
    both = replace(listed(), sessions=(IN_TURNS, other))
    reported = with_bypasses(both, frozenset({IN_TURNS.session_id})).sessions
    limits = [encode_session(s).isolation["compute_limit"] for s in reported]
    assert limits == [COMPUTE_LIMIT["bypassed"], COMPUTE_LIMIT["turns"]]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpus]:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda i: i)
    yield FakeGpus()


def test_use_of_a_process_is_the_mean_of_its_samples_of_the_last_second(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def samples(handle: int, since: int) -> list[SimpleNamespace]:
        rows = [(77, 1, 20), (77, 2, 40), (78, 2, 5), (79, -1, 90), (80, 1, 4000), (81, 1 << 40, 9)]
        return [SimpleNamespace(pid=p, timeStamp=since + t, smUtil=u) for p, t, u in rows]

    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", samples)
    assert nvml.process_use([TEST_GPU]) == {GPU: {77: 30, 78: 5}}


@pytest.mark.parametrize(
    ("error", "use"),
    [(pynvml.NVML_ERROR_NOT_FOUND, {GPU: {}}), (pynvml.NVML_ERROR_NOT_SUPPORTED, {})],
)
def test_gpu_without_samples_shows_no_use_and_one_without_support_nothing(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, error: int, use: dict[uuid.UUID, dict[int, float]]
) -> None:
    def refuse(handle: int, since: int) -> None:
        raise pynvml.NVMLError(error)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", refuse)
    assert nvml.process_use([TEST_GPU]) == use
