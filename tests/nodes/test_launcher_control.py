"""The two ends of the launcher's socket agree on every layout."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import launcher_control as lc


def test_the_layouts_have_the_sizes_of_messages_h() -> None:
    text = (Path(__file__).parents[2] / "remoting" / "control" / "messages.h").read_text()
    for name, size in (
        ("Partition", lc._PARTITION.size),
        ("Allocation", lc._ALLOCATION.size + lc.MAX_PARTITIONS * lc._PARTITION.size),
        ("Grants", lc._GRANTS.size + 4 * lc._KEY.size + lc._COUNTS.size),
        ("SessionRecord", lc._SESSION.size),
    ):
        assert f"sizeof({name}) == {size}" in text, name


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_list_or_a_launcher_error(body: bytes) -> None:
    with contextlib.suppress(lc.LauncherError):
        lc.decode_list(body)


def test_an_absent_launcher_is_a_launcher_error(tmp_path: Path) -> None:
    with pytest.raises(lc.LauncherError, match="does not answer"):
        lc.LauncherControl(tmp_path / "absent").sessions()


def test_a_launcher_that_hangs_up_is_a_launcher_error(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        with pytest.raises(lc.LauncherError):
            lc.LauncherControl(path).sessions()


def test_grants_encode_whole() -> None:
    grant = lc.Grant(uuid.uuid4(), uuid.uuid4(), 1, 2, (lc.Partition(uuid.uuid4(), 1 << 30, 25),))
    grants = lc.Grants(7, 8, uuid.uuid4(), ((os.urandom(8), os.urandom(32)),), (grant, grant))
    assert len(grants.encode()) == 200 + 2 * 568
