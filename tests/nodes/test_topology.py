"""Links between GPUs, on a simulated board, because no test machine has NVLink.

Four NVLinks connect GPUs 0 and 1, a switch connects 2 and 3. Each pair has its own host bridge.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from nodes.topology import read_links

LINKS: dict[int, list[str]] = {
    0: ["gpu1"] * 4,
    1: ["gpu0"] * 4,
    2: ["switch"] * 18,
    3: ["switch"] * 12 + ["down"] * 6,
}


def link(handle: int, i: int) -> str:
    if i >= len(LINKS[handle]):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return LINKS[handle][i]


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    switch, gpu = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
    for name, answer in {
        "nvmlDeviceGetPciInfo": lambda h: SimpleNamespace(busId=f"gpu{h}".encode()),
        "nvmlDeviceGetNvLinkState": lambda h, i: int(link(h, i) != "down"),
        "nvmlDeviceGetNvLinkRemoteDeviceType": lambda h, i: (
            switch if link(h, i) == "switch" else gpu
        ),
        "nvmlDeviceGetNvLinkRemotePciInfo": lambda h, i: SimpleNamespace(busId=link(h, i)),
        "nvmlDeviceGetTopologyCommonAncestor": lambda a, b: (
            pynvml.NVML_TOPOLOGY_HOSTBRIDGE if a // 2 == b // 2 else pynvml.NVML_TOPOLOGY_SYSTEM
        ),
    }.items():
        monkeypatch.setattr(pynvml, name, answer)
    return {i: i for i in LINKS}


def test_nvlinks_are_counted_and_pcie_is_the_fallback(board: dict[int, Any]) -> None:
    assert read_links(board) == {
        0: {1: "NV4", 2: "SYS", 3: "SYS"},
        1: {0: "NV4", 2: "SYS", 3: "SYS"},
        2: {0: "SYS", 1: "SYS", 3: "NV12"},
        3: {0: "SYS", 1: "SYS", 2: "NV12"},
    }


def test_links_without_a_lost_gpu_keep_the_indices_of_the_others(board: dict[int, Any]) -> None:
    del board[1]
    assert read_links(board) == {
        0: {2: "SYS", 3: "SYS"},
        2: {0: "SYS", 3: "NV12"},
        3: {0: "SYS", 2: "NV12"},
    }


def test_links_that_nvml_does_not_report_are_left_out(
    board: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    for name in ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetTopologyCommonAncestor"):
        monkeypatch.setattr(pynvml, name, unknown)
    assert read_links(board) == {i: {} for i in LINKS}


def test_name_that_is_no_text_does_not_hide_other_gpus(
    board: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def garbled(handle: int, i: int) -> SimpleNamespace:
        return SimpleNamespace(busId=b"\xff\xfe" if handle == 2 else link(handle, i))

    def undecodable(handle: int) -> SimpleNamespace:
        bus = b"\xff" if handle == 3 else f"gpu{handle}".encode()
        return SimpleNamespace(busId=bus if handle != 2 else bus.decode())

    monkeypatch.setattr(pynvml, "nvmlDeviceGetNvLinkRemotePciInfo", garbled)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPciInfo", undecodable)
    assert read_links(board)[0] == {1: "NV4", 2: "SYS", 3: "SYS"}
