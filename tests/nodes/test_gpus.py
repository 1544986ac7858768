"""GPUs of a machine on which NVML cannot read one of them, on a simulated board."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from nodes.gpus import Nvml

GPUS, LOST = 3, 1
READERS: dict[str, Callable[[int], Any]] = {
    "nvmlDeviceGetHandleByIndex": lambda i: i,
    "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
    "nvmlDeviceGetUUID": lambda i: f"GPU-00000000-0000-0000-0000-00000000000{i}",
    "nvmlDeviceGetName": lambda _: "Test GPU",
    "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=1 << 30),
}
"""Functions of NVML that the agent needs for each GPU, with results."""
ERRORS = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_UNKNOWN,
)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    readers = {"nvmlInit": lambda: None, "nvmlDeviceGetCount": lambda: GPUS} | READERS
    for name, read in readers.items():
        monkeypatch.setattr(pynvml, name, read)
    return Nvml()


def indices(nvml: Nvml) -> list[int]:
    return [gpu.index for gpu in nvml.gpus()]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("error", ERRORS)
def test_gpu_that_cannot_be_read_is_left_out(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, name: str, error: int
) -> None:
    def fail(i: int) -> Any:
        if i == LOST:
            raise pynvml.NVMLError(error)
        return READERS[name](i)

    monkeypatch.setattr(pynvml, name, fail)
    assert indices(nvml) == [0, 2]
    monkeypatch.setattr(pynvml, name, READERS[name])
    assert indices(nvml) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "value"),
    [("nvmlDeviceGetMemoryInfo", SimpleNamespace(total=0)), ("nvmlDeviceGetUUID", "GPU-?")],
)
def test_gpu_with_a_value_that_the_appliance_refuses_is_left_out(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    monkeypatch.setattr(pynvml, name, lambda i: value if i == LOST else READERS[name](i))
    assert indices(nvml) == [0, 2]


def test_no_gpu_is_found_while_nvml_cannot_count_them(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", fail)
    assert indices(nvml) == []


def test_failure_is_logged_once_until_the_gpu_has_been_read_again(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for total in (0, 0, 1 << 30, 0):
            memory = SimpleNamespace(total=total)
            monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda _, m=memory: m)
            nvml.gpus()
    assert caplog.text.count("cannot read GPU 1") == 2
