"""Agent messages: the gateway refuses those outside the limits, and the agent sends none."""

from __future__ import annotations

import math
import random
import uuid
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.allocations.models import SessionState
from appliance.fleet.message_check import SESSION_STATES, InvalidMessageError, check_message
from nodes.gpus import Gpu
from nodes.launcher_control import SessionList, SessionReport
from nodes.launcher_layouts import Holding, ShareRecord
from nodes.messages import encode_gpu, encode_report
from nodes.protocol import fleet_pb2, limits
from nodes.suspending import Outcome

TOO_LARGE = limits.MAX_NUMBER + 1


def message(**body: Any) -> fleet_pb2.AgentMessage:
    return fleet_pb2.AgentMessage(boot_id="b", sequence=1, **body)


def session(**changes: Any) -> fleet_pb2.Session:
    values: dict[str, Any] = {
        "id": uuid.uuid4().bytes,
        "allocation_id": uuid.uuid4().bytes,
        "state": "running",
    }
    return fleet_pb2.Session(**(values | changes))


def report(**changes: Any) -> fleet_pb2.AgentMessage:
    return message(report=fleet_pb2.Report(generation=1, sessions=[session(**changes)]))


def shares(*percents: list[float]) -> fleet_pb2.AgentMessage:
    """Return a report with shares of one allocation."""
    reported = [
        fleet_pb2.ReceivedShare(allocation_id=bytes(16), received_percent=p) for p in percents
    ]
    return message(report=fleet_pb2.Report(generation=1, shares=reported))


def gpu(**changes: Any) -> fleet_pb2.AgentMessage:
    values: dict[str, Any] = {"uuid": uuid.uuid4().bytes, "model": "A", "memory_bytes": 1}
    return message(inventory=fleet_pb2.Inventory(gpus=[fleet_pb2.Gpu(**(values | changes))]))


INVALID = {
    "no boot id": fleet_pb2.AgentMessage(sequence=1, heartbeat=fleet_pb2.Heartbeat()),
    "long boot id": fleet_pb2.AgentMessage(boot_id="b" * 65, heartbeat=fleet_pb2.Heartbeat()),
    "no body": fleet_pb2.AgentMessage(boot_id="b"),
    "generation": message(report=fleet_pb2.Report(generation=TOO_LARGE)),
    "number of sessions": message(
        report=fleet_pb2.Report(sessions=[session() for _ in range(limits.MAX_SESSIONS + 1)])
    ),
    "session twice": message(report=fleet_pb2.Report(sessions=[session(id=bytes(16))] * 2)),
    "session id": report(id=b"x"),
    "allocation id": report(allocation_id=b"x"),
    "unknown state": report(state="gone"),
    "long state": report(state="x" * 2_000_000),
    "pid": report(pid=1 << 31),
    "program": report(program="x" * 65),
    "unprintable program": report(program="a\0b"),
    "client address": report(client_address="x" * 65),
    "end reason": report(end_reason="x" * 201),
    "memory": report(memory_bytes=TOO_LARGE),
    "launches": report(launches=TOO_LARGE),
    "bytes in": report(bytes_in=TOO_LARGE),
    "bytes out": report(bytes_out=TOO_LARGE),
    "time": report(opened_seconds=-1),
    "isolation measures": report(isolation={str(i): "" for i in range(17)}),
    "isolation measure": report(isolation={"x" * 65: ""}),
    "isolation status": report(isolation={"user": "x" * 201}),
    "refused calls": report(refused_calls=["x"] * 65),
    "refused call": report(refused_calls=["x" * 65]),
    "partitions": report(partition_bytes=[0] * 17),
    "partition bytes": report(partition_bytes=[TOO_LARGE]),
    "share twice": shares([10.0], [10.0]),
    "share above 100": shares([100.5]),
    "share below 0": shares([-1.0]),
    "share without end": shares([math.inf]),
    "shares of too many partitions": shares([1.0] * 17),
    "GPU id": gpu(uuid=b"short"),
    "GPU index": gpu(index=(1 << 32) - 1),
    "GPU memory": gpu(memory_bytes=TOO_LARGE),
    "GPU memory of which sums are too large": gpu(memory_bytes=(1 << 50) + 1),
    "no GPU memory": gpu(memory_bytes=0),
    "GPU context": gpu(context_bytes=(1 << 50) + 1),
    "time after all calendars": report(opened_seconds=1 << 38),
    "GPU model": gpu(model="x" * 201),
    "GPU link": gpu(links={1: "telepathy"}),
    "GPU links": gpu(links={i: "PIX" for i in range(65)}),
    "GPU twice": message(inventory=fleet_pb2.Inventory(gpus=[fleet_pb2.Gpu(uuid=bytes(16))] * 2)),
    "number of GPUs": message(
        inventory=fleet_pb2.Inventory(
            gpus=[fleet_pb2.Gpu(uuid=uuid.uuid4().bytes) for _ in range(65)]
        )
    ),
    "endpoints": message(inventory=fleet_pb2.Inventory(endpoints=[fleet_pb2.Endpoint()] * 17)),
    "endpoint port": message(
        inventory=fleet_pb2.Inventory(endpoints=[fleet_pb2.Endpoint(port=65536)])
    ),
    "driver": message(inventory=fleet_pb2.Inventory(driver_version="x" * 65)),
    "metrics": message(samples=fleet_pb2.Samples(metrics=[f"m{i}" for i in range(65)])),
    "empty metric": message(samples=fleet_pb2.Samples(metrics=[""])),
    "metric twice": message(samples=fleet_pb2.Samples(metrics=["m", "m"])),
    "values": message(
        samples=fleet_pb2.Samples(
            metrics=["m"], gpus=[fleet_pb2.GpuSample(gpu_uuid=bytes(16), values=[1, 2])]
        )
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_message_outside_the_limits_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessageError) as refusal:
        check_message(INVALID[name])
    assert len(str(refusal.value)) < 200, "the reason quotes no text of the node"


def test_ordinary_messages_are_accepted() -> None:
    samples = fleet_pb2.Samples(
        metrics=["m"], gpus=[fleet_pb2.GpuSample(gpu_uuid=bytes(16), values=[float("nan")])]
    )
    for accepted in (
        report(isolation={"user": "enforced"}),
        gpu(links={1: "NV18", 2: "PHB"}, context_bytes=415 << 20),
        shares([0.0, math.nan, 100.0]),
        message(samples=samples),
        message(heartbeat=fleet_pb2.Heartbeat()),
    ):
        check_message(accepted)


SMALL_MESSAGES = [
    data
    for m in (report(isolation={"user": "enforced"}), gpu(links={1: "NV18"}), *INVALID.values())
    if len(data := m.SerializeToString()) < 1000
]


@given(
    st.sampled_from(SMALL_MESSAGES),
    st.lists(st.tuples(st.integers(0, 999), st.binary(min_size=1, max_size=4)), max_size=6),
)
@settings(max_examples=2000, deadline=None)
def test_changed_bytes_cause_no_other_error(data: bytes, changes: list[tuple[int, bytes]]) -> None:
    for at, new in changes:
        start = at % len(data)
        data = data[:start] + new + data[start + len(new) :]
    try:
        m = fleet_pb2.AgentMessage.FromString(data)
    except DecodeError:
        return
    try:
        check_message(m)
    except InvalidMessageError as refusal:
        assert len(str(refusal)) < 200


def test_session_states_are_those_of_the_model() -> None:
    assert set(SessionState.values) == SESSION_STATES


def hostile_session(random_: random.Random) -> SessionReport:
    """Return a session whose program and session server chose all values."""
    text = "".join(chr(random_.choice((0, 10, 65, 0xFFFD, 0x202E))) for _ in range(256))
    number = random_.choice((0, 1 << 31, (1 << 64) - 1))
    return SessionReport(
        session_id=uuid.UUID(int=random_.getrandbits(128)),
        allocation_id=uuid.UUID(int=random_.getrandbits(128)),
        pid=min(number, (1 << 32) - 1),
        state=random_.choice(("opening", "running", "closed")),
        opened_seconds=number,
        bytes_in=number,
        bytes_out=number,
        launches=number,
        memory_bytes=number,
        client_pid=min(number, (1 << 32) - 1),
        isolation={"user": False, "cgroup": True},
        program=text,
        reason=text,
        client_address=text,
        refused_calls=(text,) * 256,
        partition_bytes=(number,) * 16,
    )


def test_hostile_programs_cannot_make_the_agent_send_an_invalid_report() -> None:
    random_ = random.Random(21)
    sessions = tuple(hostile_session(random_) for _ in range(limits.MAX_SESSIONS + 500))
    encoded = message(report=encode_report(SessionList(1, 8445, sessions)))
    check_message(encoded)
    assert encoded.ByteSize() < limits.MAX_MESSAGE_BYTES
    states = [s.state == "closed" for s in encoded.report.sessions]
    assert states == sorted(states), "open sessions come first"


def test_report_has_all_allocations_of_a_full_node_with_long_reasons() -> None:
    ids = [uuid.UUID(int=n) for n in range(limits.MAX_ALLOCATIONS)]
    over = tuple(Holding(i.bytes, ((1 << 64) - 1,)) for i in ids)
    reason = "\U0001f50b" * 500
    outcomes = [Outcome(i, limits.MAX_NUMBER, "suspending", (1 << 64) - 1, reason) for i in ids]
    encoded = message(report=encode_report(SessionList(1, 8445, over=over), outcomes))
    check_message(encoded)
    assert encoded.ByteSize() < limits.MAX_MESSAGE_BYTES
    assert len(encoded.report.over) == len(encoded.report.suspensions) == len(ids)


def plain_session() -> SessionReport:
    return replace(
        hostile_session(random.Random(21)),
        state="running",
        program="python3",
        reason="",
        client_address="192.168.100.100:54321",
        refused_calls=("cuGraphicsGLRegisterBuffer",),
    )


def test_report_of_ordinary_sessions_has_all_of_them() -> None:
    ids = [uuid.UUID(int=n) for n in range(limits.MAX_SESSIONS)]
    listed = SessionList(1, 8445, tuple(replace(plain_session(), session_id=i) for i in ids))
    assert len(encode_report(listed).sessions) == limits.MAX_SESSIONS


def test_report_of_a_full_node_has_all_open_sessions() -> None:
    """The appliance ends open sessions that a report leaves out."""
    ids = [uuid.UUID(int=n) for n in range(limits.MAX_ALLOCATIONS)]
    outcomes = [Outcome(i, 1, "suspending", 1 << 30, "\U0001f50b" * 500) for i in ids]
    received = tuple(ShareRecord(i.bytes, (50,)) for i in ids)
    running = tuple(replace(plain_session(), session_id=i) for i in ids[: limits.MAX_SESSIONS])
    listed = SessionList(1, 8445, running, shares=received)
    encoded = message(report=encode_report(listed, outcomes))
    check_message(encoded)
    assert encoded.ByteSize() < limits.MAX_MESSAGE_BYTES
    assert len(encoded.report.sessions) == limits.MAX_SESSIONS


def test_gpu_with_odd_names_is_sent_within_the_limits() -> None:
    odd = Gpu(uuid.uuid4(), 0, "x" * 300 + "\n", 1, "9.0", "\0" * 40)
    check_message(message(inventory=fleet_pb2.Inventory(gpus=[encode_gpu(odd)])))
