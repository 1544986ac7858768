"""The control socket of the launcher, from the agent's side."""

from __future__ import annotations

import contextlib
import math
import os
import re
import socket
import threading
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import launcher_control as lc
from nodes import launcher_layouts as layouts
from nodes import messages
from nodes.desired_state import to_grants
from nodes.protocol import fleet_pb2, limits
from remoting.codegen import control_layouts

MESSAGES = Path(__file__).parents[2] / "remoting" / "control" / "messages.h"


def test_generated_layouts_are_current() -> None:
    for path, text in control_layouts.generate().items():
        assert path.read_text() == text, f"run: python -m remoting.codegen.control_layouts ({path})"


def test_generated_layouts_have_the_sizes_that_the_compiler_asserts() -> None:
    sizes = dict(re.findall(r"sizeof\((\w+)\) == (\d+)", MESSAGES.read_text()))
    generated = {name: str(getattr(layouts, name).SIZE) for name in sizes if hasattr(layouts, name)}
    assert set(generated) >= {"Partition", "Allocation", "Grants", "SessionRecord"}
    assert generated == {name: sizes[name] for name in generated}


def test_grants_of_a_full_node_fit_in_a_message() -> None:
    size = layouts.Grants.SIZE + limits.MAX_ALLOCATIONS * layouts.Allocation.SIZE
    assert size <= layouts.MAX_MESSAGE_BYTES


def test_member_with_unknown_type_is_rejected() -> None:
    header = control_layouts.Header({}, {}, {})
    field = control_layouts.Field("flag", "bool", 0)
    with pytest.raises(KeyError, match="bool"):
        control_layouts.struct_format(field, header)


def session_record(**changes: int) -> layouts.SessionRecord:
    values: dict[str, int] = {"pid": 7, "state": layouts.SessionState.RUNNING, "isolation": 5}
    values |= changes
    return layouts.SessionRecord(
        id=bytes(range(16)),
        allocation=bytes(16),
        pid=values["pid"],
        state=values["state"],
        opened_seconds=1,
        bytes_in=2,
        bytes_out=3,
        launches=4,
        memory_bytes=5,
        client_pid=6,
        isolation=values["isolation"],
        compute_mode=layouts.ComputeMode.CAPPED,
        enforcement=values.get("enforcement", layouts.Enforcement.TURNS),
        longest_drain_ms=12,
        compute_percent=30,
        program=b"python3",
        reason=b"",
        client_address=b"10.0.0.7:5000",
        refused_calls=b"cuFoo cuBar",
        partition_bytes=tuple(range(16)),
    )


def test_session_list_is_decoded() -> None:
    body = layouts.SessionList(9, 2, 8445, 5).pack() + session_record().pack()
    listed = lc.decode_list(body + session_record(state=99).pack())
    assert (listed.generation, listed.port) == (9, 8445)
    assert listed.isolation == ("seccomp", "resource_limits")
    first, second = listed.sessions
    assert (first.pid, first.state, first.program) == (7, "running", "python3")
    assert first.refused_calls == ("cuFoo", "cuBar")
    assert first.enforcement == "turns" and first.longest_drain_ms == 12
    assert (first.compute_mode, first.compute_percent) == ("capped", 30)
    assert first.partition_bytes == tuple(range(16))
    assert first.isolation == {
        "seccomp": True,
        "no_new_privs": False,
        "resource_limits": True,
        "user": False,
        "cgroup": False,
        "file_system": False,
        "network": False,
        "processes": False,
        "landlock": False,
    }
    assert second.state == "closed"  # a state of a newer launcher


def test_grant_with_an_unknown_layer_permits_no_session() -> None:
    known = lc.bits_of(lc.ISOLATION_MEASURES)
    assert lc.bits_of({"seccomp"}) == layouts.Isolation.SECCOMP
    assert lc.bits_of({"seccomp", "a layer of the future"}) & ~known


def serve(path: Path, answers: dict[layouts.Kind, tuple[layouts.Kind, bytes]]) -> None:
    """Answer a launcher's requests. A kind without an answer closes the connection."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def run() -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                head = layouts.Header.unpack(connection.recv(layouts.Header.SIZE))
                if answer := answers.get(layouts.Kind(head.kind)):
                    kind, body = answer
                    connection.sendall(layouts.Header(len(body), kind).pack() + body)

    threading.Thread(target=run, daemon=True).start()


def test_holdings_of_the_launcher_are_reported(tmp_path: Path) -> None:
    allocation = uuid.uuid4()
    holding = layouts.Holding(allocation.bytes, (5 << 20, *(0 for _ in range(15))))
    over = layouts.OverList(9, 1).pack() + holding.pack()
    sessions = layouts.SessionList(9, 0, 8445, 5).pack()
    serve(
        tmp_path / "s",
        {
            layouts.Kind.SESSIONS: (layouts.Kind.SESSION_LIST, sessions),
            layouts.Kind.OVER: (layouts.Kind.OVER_LIST, over),
        },
    )
    report = messages.encode_report(lc.LauncherControl(tmp_path / "s").sessions())
    assert report.knows_over and report.over[0].held_bytes[0] == 5 << 20
    assert report.over[0].allocation_id == allocation.bytes


def test_shares_of_the_launcher_are_reported(tmp_path: Path) -> None:
    allocation = uuid.uuid4()
    received = (2461, layouts.UNKNOWN_SHARE, 0, *(layouts.UNKNOWN_SHARE for _ in range(13)))
    shares = layouts.ShareList(1).pack() + layouts.ShareRecord(allocation.bytes, received).pack()
    serve(
        tmp_path / "s",
        {
            layouts.Kind.SESSIONS: (
                layouts.Kind.SESSION_LIST,
                layouts.SessionList(9, 0, 8445, 5).pack(),
            ),
            layouts.Kind.SHARES: (layouts.Kind.SHARE_LIST, shares),
        },
    )
    (share,) = messages.encode_report(lc.LauncherControl(tmp_path / "s").sessions()).shares
    assert share.allocation_id == allocation.bytes
    assert share.received_percent == pytest.approx([24.61, math.nan, 0.0], nan_ok=True)


def test_older_launcher_does_not_tell_holdings_and_its_sessions_are_reported(
    tmp_path: Path,
) -> None:
    body = layouts.SessionList(9, 1, 8445, 5).pack() + session_record().pack()
    serve(tmp_path / "s", {layouts.Kind.SESSIONS: (layouts.Kind.SESSION_LIST, body)})
    report = messages.encode_report(lc.LauncherControl(tmp_path / "s").sessions())
    assert not report.knows_over and not report.over and len(report.sessions) == 1
    assert not report.shares


@given(st.binary(max_size=400))
def test_arbitrary_holdings_are_decoded_or_a_launcher_error(body: bytes) -> None:
    with contextlib.suppress(lc.LauncherError):
        lc.decode_over(body)


@given(st.binary(max_size=400))
def test_arbitrary_shares_are_decoded_or_a_launcher_error(body: bytes) -> None:
    with contextlib.suppress(lc.LauncherError):
        lc.decode_shares(body)


@given(st.binary(max_size=2000))
def test_arbitrary_response_is_decoded_or_a_launcher_error(body: bytes) -> None:
    with contextlib.suppress(lc.LauncherError):
        lc.decode_list(body)


def test_missing_socket_is_a_launcher_error(tmp_path: Path) -> None:
    with pytest.raises(lc.LauncherError, match="launcher unreachable"):
        lc.LauncherControl(tmp_path / "absent").sessions()


def test_closed_connection_is_a_launcher_error(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        with pytest.raises(lc.LauncherError):
            lc.LauncherControl(path).sessions()


def test_encoded_grants_have_the_expected_size() -> None:
    grant = lc.Grant(uuid.uuid4(), uuid.uuid4(), 1, 2, (lc.Partition(uuid.uuid4(), 1 << 30, 25),))
    grants = lc.Grants(
        7,
        8,
        uuid.uuid4(),
        (layouts.TicketKey(os.urandom(8), os.urandom(32), os.urandom(32)),),
        (grant, grant),
    )
    assert len(grants.encode()) == 328 + 2 * 704


def grant_of(mode: str, max_late_seconds: int = 0) -> layouts.Allocation:
    """Return what the launcher gets for an allocation of the desired state with this mode."""
    state = fleet_pb2.DesiredState(
        grants=[
            fleet_pb2.Grant(
                allocation_id=uuid.uuid4().bytes,
                tenant_id=uuid.uuid4().bytes,
                compute_mode=mode,
                max_late_seconds=max_late_seconds,
                partitions=[
                    fleet_pb2.Partition(
                        gpu_uuid=uuid.uuid4().bytes, memory_bytes=1 << 30, compute_percent=25
                    )
                ],
            )
        ]
    )
    (grant,) = to_grants(state, uuid.uuid4(), {}).grants
    return grant.layout()


@pytest.mark.parametrize("mode", ["shared", "capped", "guaranteed", "exclusive"])
def test_launcher_is_told_percent_and_compute_mode(mode: str) -> None:
    allocation = grant_of(mode)
    assert layouts.ComputeMode(allocation.compute_mode).name.lower() == mode
    assert allocation.partition[0].compute_percent == 25


@pytest.mark.parametrize("seconds", [0, 60])
def test_launcher_is_told_for_how_long_work_may_be_late(seconds: int) -> None:
    assert grant_of("shared", seconds).max_late_seconds == seconds


@pytest.mark.parametrize("mode", ["", "a mode of a later version"])
def test_unknown_compute_mode_counts_as_shared(mode: str) -> None:
    assert grant_of(mode).compute_mode == layouts.ComputeMode.SHARED


@pytest.mark.parametrize("enforcement", [*layouts.Enforcement, 99])
def test_session_reports_how_its_share_is_enforced(enforcement: int) -> None:
    body = layouts.SessionList(9, 1, 8445, 5).pack()
    body += session_record(enforcement=enforcement).pack()
    status = messages.isolation_of(lc.decode_list(body).sessions[0])["compute_limit"]
    assert (status == "enforced") == (enforcement == layouts.Enforcement.TURNS)
    assert ("unenforced" in status) == (enforcement in {0, 99})


def test_texts_of_enforcement_are_in_the_order_of_their_severity() -> None:
    order = ["turns", "alone", "sliced", "bypassed", "unenforced"]
    texts = [messages.COMPUTE_LIMIT[name] for name in order]
    assert texts == sorted(texts)
