"""Uses of freed and foreign handles on the software GPU, and of a heap that kernels use.

`python -m tests.softgpu.stale_handles NAME` runs one of them.
Each function returns the codes of its calls, or the value of a kernel.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from tests.softgpu.driver import Device

HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
STORE = (
    HEAD
    + """.visible .entry k(.param .u64 p) {{ .reg .b64 %p; ld.param.u64 %p, [p];
st.global.u32 [%p], {}; ret; }}"""
)
RELAXED, CONDITIONAL, HEAP_LIMIT = 2, 13, 2


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = (
        ("function", c_void_p),
        ("sizes", c_uint * 7),
        ("parameters", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    )


class Conditional(ctypes.Structure):
    """CUgraphNodeParams with CUDA_CONDITIONAL_NODE_PARAMS."""

    _fields_ = (
        ("type", c_int),
        ("reserved", c_int * 3),
        ("handle", c_uint64),
        ("kind", c_int),
        ("size", c_uint),
        ("bodies", ctypes.POINTER(c_void_p)),
        ("rest", c_uint64 * 32),
    )


class Attack(Device):
    """The device, and shorter calls."""

    def code(self, name: str, *arguments: object) -> int:
        return int(getattr(self.lib, name)(*arguments))

    def new(self, name: str, *arguments: object) -> c_void_p:
        """Call a function whose first argument is a new handle."""
        handle = c_void_p()
        self.call(name, byref(handle), *arguments)
        return handle

    def graph(self) -> c_void_p:
        return self.new("cuGraphCreate", 0)

    def child(self, graph: c_void_p) -> tuple[c_void_p, c_void_p]:
        """Return a new node of the graph and the graph inside of it."""
        node = self.new("cuGraphAddChildGraphNode", graph, None, c_size_t(0), self.graph())
        inside = c_void_p()
        self.call("cuGraphChildGraphNodeGetGraph", node, byref(inside))
        return node, inside

    def capture(self, graph: c_void_p | None = None) -> c_void_p:
        """Return a captured stream."""
        stream = self.new("cuStreamCreate", 1)
        self.call("cuStreamBeginCaptureToGraph", stream, graph, None, None, c_size_t(0), RELAXED)
        return stream

    def captured_graph(self, stream: c_void_p) -> c_void_p:
        status, graph = c_int(), c_void_p()
        self.call(
            "cuStreamGetCaptureInfo_v2", stream, byref(status), None, byref(graph), None, None
        )
        return graph

    def function(self, value: int) -> tuple[c_void_p, c_void_p]:
        module = self.load(STORE.format(value))
        function = self.new("cuModuleGetFunction", module, b"k")
        self.call("cuFuncLoad", function)
        return module, function


def captured_graph(a: Attack) -> list[int]:
    stream = a.capture()
    graph = a.captured_graph(stream)
    refused = a.code("cuGraphDestroy", graph)
    a.call("cuStreamEndCapture", stream, byref(graph))
    return [refused, a.code("cuGraphDestroy", graph)]


def graph_around_a_captured_one(a: Attack) -> list[int]:
    parent = a.graph()
    node, inside = a.child(parent)
    stream = a.capture(inside)
    refused = [a.code("cuGraphDestroyNode", node), a.code("cuGraphDestroy", parent)]
    a.call("cuStreamEndCapture", stream, byref(c_void_p()))
    return [*refused, a.code("cuGraphDestroy", parent)]


def graph_of_a_captured_stream_that_is_destroyed(a: Attack) -> list[int]:
    stream = a.capture()
    graph = a.captured_graph(stream)
    a.call("cuStreamDestroy_v2", stream)
    return [a.code("cuGraphDestroy", graph)]


def graph_of_a_node(a: Attack) -> list[int]:
    parent = a.graph()
    _, inside = a.child(parent)
    return [a.code("cuGraphDestroy", inside), a.code("cuGraphDestroy", parent)]


def body_of_a_condition(a: Attack) -> list[int]:
    graph, condition, context = a.graph(), c_uint64(), c_void_p()
    a.call("cuCtxGetCurrent", byref(context))
    a.call("cuGraphConditionalHandleCreate", byref(condition), graph, context, 0, 0)
    params = Conditional(CONDITIONAL, handle=condition.value, kind=0, size=1)
    a.new("cuGraphAddNode_v2", graph, None, None, c_size_t(0), byref(params))
    body = c_void_p(params.bodies[0])
    return [a.code("cuGraphDestroy", body), a.code("cuGraphDestroy", graph)]


def handle_of_another_type(a: Attack) -> list[int]:
    graph = a.graph()
    node, out = a.new("cuGraphAddEmptyNode", graph, None, c_size_t(0)), c_void_p()
    return [
        a.code("cuGraphDestroy", node),
        a.code("cuGraphDestroyNode", graph),
        a.code("cuGraphInstantiateWithFlags", byref(out), node, c_uint64(0)),
        a.code("cuEventDestroy_v2", node),
        a.code("cuArrayDestroy", graph),
        a.code("cuModuleUnload", graph),
        a.code("cuTexObjectDestroy", graph),
        a.code("cuMemRelease", graph),
    ]


def kernel_of_an_unloaded_module(a: Attack) -> list[int]:
    """Return what a kernel of a graph stores after others took the memory of its module."""
    module, function = a.function(1)
    target, graph = c_uint64(), a.graph()
    a.call("cuMemAlloc_v2", byref(target), c_size_t(4))
    parameters = (c_void_p * 1)(ctypes.addressof(target))
    node = KernelNode(function, (1, 1, 1, 1, 1, 1, 0), ctypes.addressof(parameters))
    a.new("cuGraphAddKernelNode_v2", graph, None, c_size_t(0), byref(node))
    executable = a.new("cuGraphInstantiateWithFlags", graph, c_uint64(0))
    a.call("cuModuleUnload", module)
    for _ in range(8):
        a.function(2)
    a.call("cuGraphLaunch", executable, None)
    a.call("cuCtxSynchronize")
    stored = c_uint()
    a.call("cuMemcpyDtoH_v2", byref(stored), target, c_size_t(4))
    return [stored.value]


def heap_that_kernels_use(a: Attack) -> list[int]:
    """Return the codes of two limits of the heap: before its first use, and smaller behind that."""
    module = a.load(
        HEAD
        + """.extern .func (.param .b64 r) malloc (.param .b64 n);
.visible .entry k() { .param .b64 n; .param .b64 r;
st.param.b64 [n], 64; call.uni (r), malloc, (n); ret; }"""
    )
    codes = [a.code("cuCtxSetLimit", HEAP_LIMIT, c_size_t(64 << 20))]
    function = a.new("cuModuleGetFunction", module, b"k")
    a.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    a.call("cuCtxSynchronize")
    return [*codes, a.code("cuCtxSetLimit", HEAP_LIMIT, c_size_t(8 << 20))]


def main() -> None:
    print(*globals()[sys.argv[1]](Attack()))


if __name__ == "__main__":
    main()
