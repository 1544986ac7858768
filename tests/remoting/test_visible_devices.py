"""CUDA_VISIBLE_DEVICES restricts CUDA when it is initialised, and never NVML or the node.

The grammar has unit tests: remoting/unit_tests/visible_devices_test.cc.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from nodes.launcher_control import Partition
from tests.remoting.node import LocalNode

BASE = """
import ctypes, json, os
cuda = ctypes.CDLL("libcuda.so.1")

def text(uuid):
    h = bytes(uuid).hex()
    return "GPU-" + "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))

def uuids():
    count, found = ctypes.c_int(), []
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    for i in range(count.value):
        uuid = (ctypes.c_ubyte * 16)()
        assert cuda.cuDeviceGetUuid_v2(uuid, i) == 0
        found.append(text(uuid))
    return found

def make_current(ordinal):
    context = ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0
    assert cuda.cuCtxSetCurrent(context) == 0

def allocate(size):
    memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)) == 0
    return memory
"""

LIST = "print(json.dumps(uuids() if cuda.cuInit(0) == 0 else []))"

IDENTIFY = """
assert cuda.cuInit(0) == 0
found = []
for i in range(2):
    bus, device = ctypes.create_string_buffer(32), ctypes.c_int(-1)
    assert cuda.cuDeviceGetPCIBusId(bus, 32, i) == 0
    assert cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), bus) == 0
    make_current(i)
    current, owner = ctypes.c_int(-1), ctypes.c_int(-1)
    assert cuda.cuCtxGetDevice(ctypes.byref(current)) == 0
    assert cuda.cuPointerGetAttribute(ctypes.byref(owner), 9, allocate(4096)) == 0
    found.append([bus.value.decode(), device.value, current.value, owner.value])
print(json.dumps(found))
"""

HIDDEN = """
assert cuda.cuInit(0) == 0
device = ctypes.c_int(-1)
print(json.dumps([
    cuda.cuDeviceGet(ctypes.byref(device), 1),
    cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), os.environ["HIDDEN_BUS_ID"].encode()),
]))
"""

NVML_LIST = """
import pynvml as n
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
print(json.dumps([[n.nvmlDeviceGetIndex(h), n.nvmlDeviceGetUUID(h)] for h in handles]))
"""

CHOOSE_WITH_NVML = """
import pynvml as n
n.nvmlInit()
before = cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
os.environ["CUDA_VISIBLE_DEVICES"] = n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(1))
assert cuda.cuInit(0) == 0
chosen = uuids()
del os.environ["CUDA_VISIBLE_DEVICES"]
assert cuda.cuInit(0) == 0
make_current(0)
memory = allocate(300 << 20)
used = [n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(i)).used for i in range(2)]
print(json.dumps([before, chosen, uuids(), [u >= 300 << 20 for u in used]]))
"""

INITIALISE_AGAIN = """
first = cuda.cuInit(0)
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
count = ctypes.c_int(-1)
print(json.dumps([first, cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count))]))
"""

SHARE = """
assert cuda.cuInit(0) == 0
make_current(0)
handle = (ctypes.c_char * 64)()
assert cuda.cuIpcGetMemHandle(handle, allocate(4096)) == 0
print(bytes(handle).hex(), flush=True)
input()
"""

OPEN = """
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]

assert cuda.cuInit(0) == 0
handle, memory = Handle.from_buffer_copy(bytes.fromhex(os.environ["HANDLE"])), ctypes.c_uint64()
results = []
for i in range(2):
    make_current(i)
    results.append(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(memory), handle, 1))
print(json.dumps(results))
"""

NOT_INITIALIZED, NO_DEVICE, INVALID_DEVICE = 3, 100, 101


def run(code: str, env: dict[str, str], visible: str | None = None, **more: str) -> list[Any]:
    """Run code after BASE with CUDA_VISIBLE_DEVICES and return the list that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", BASE + code],
        env=with_visible(env, visible) | more,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: list[Any] = json.loads(done.stdout)
    return result


def with_visible(env: dict[str, str], visible: str | None) -> dict[str, str]:
    others = {name: value for name, value in env.items() if name != "CUDA_VISIBLE_DEVICES"}
    return others if visible is None else others | {"CUDA_VISIBLE_DEVICES": visible}


def share_both_gpus(node: LocalNode) -> None:
    node.partitions = tuple(Partition(gpu, 1 << 30, 50) for gpu in node.gpus)
    node.grant()


@pytest.fixture(scope="module")
def node() -> Iterator[LocalNode]:
    """A node whose allocation has both GPUs."""
    local = LocalNode()
    share_both_gpus(local)
    yield local
    local.stop()


def test_list_selects_and_orders_devices(gpu_environment: dict[str, str]) -> None:
    first, second = run(LIST, gpu_environment)
    common = first[:-2]  # the last byte is the index of a software GPU
    for visible, expected in (
        ("1,0", [second, first]),
        ("1", [second]),
        ("0,7,1", [first]),
        ("0,0", []),
        ("", []),
        (f"{second},{first}", [second, first]),
        (common, []),
    ):
        assert run(LIST, gpu_environment, visible) == expected, visible


def test_bus_ids_contexts_and_pointers_follow_the_order(gpu_environment: dict[str, str]) -> None:
    first, second = (bus for bus, *_ in run(IDENTIFY, gpu_environment))
    assert run(IDENTIFY, gpu_environment, "1,0") == [[second, 0, 0, 0], [first, 1, 1, 1]]
    hidden = run(HIDDEN, gpu_environment, "1", HIDDEN_BUS_ID=first)
    assert hidden == [INVALID_DEVICE, 1]


def test_nvml_shows_all_devices(node: LocalNode) -> None:
    env = node.remote_environment()
    everything = run(NVML_LIST, env)
    assert [index for index, _ in everything] == [0, 1]
    for visible in ("1", "1,0", ""):
        assert run(NVML_LIST, env, visible) == everything, visible


def test_only_the_first_initialisation_reads_the_list(node: LocalNode) -> None:
    env = node.remote_environment()
    second = [run(LIST, env)[1]]
    result = run(CHOOSE_WITH_NVML, env, "0")
    assert result == [NOT_INITIALIZED, second, second, [False, True]]


def test_empty_list_leaves_cuda_uninitialised(gpu_environment: dict[str, str]) -> None:
    assert run(INITIALISE_AGAIN, gpu_environment, "") == [NO_DEVICE, NO_DEVICE, NOT_INITIALIZED]


def test_memory_is_shared_between_programs_that_order_devices_differently(
    gpu_environment: dict[str, str],
) -> None:
    command = [sys.executable, "-c", BASE + SHARE]
    env = with_visible(gpu_environment, "1")
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout
        handle = owner.stdout.readline().strip()
        reversed_order = run(OPEN, gpu_environment, "1,0", HANDLE=handle)
        usual_order = run(OPEN, gpu_environment, HANDLE=handle)
        owner.communicate("\n", timeout=60)
    assert (reversed_order[0], usual_order[1]) == (0, 0)


def test_variable_of_the_node_hides_no_gpu() -> None:
    node = LocalNode(CUDA_VISIBLE_DEVICES="")
    try:
        share_both_gpus(node)
        assert len(run(LIST, node.remote_environment())) == 2
    finally:
        node.stop()
