"""Calls with names, arrays and logs that do not fit in one record of the client library.

`python -m tests.remoting.large_calls names|dependencies|log|link SIZE` prints what the driver
answered.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_size_t, c_uint, c_uint64, c_void_p

from tests.remoting.image_calls import Library

HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
ERROR_LOG, ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
PTX_INPUT = 1
VALUE = 9


def text_with(kernel: str, variable: str) -> bytes:
    return (
        f"{HEAD}.visible .global .align 4 .u32 {variable} = 5;\n.visible .entry {kernel}(.param"
        " .u64 p) {\n.reg .u64 %a; .reg .u32 %x;\nld.param.u64 %a, [p];\n"
        f"mov.u32 %x, {VALUE};\nst.global.u32 [%a], %x;\nret; }}\n"
    ).encode()


def names(cuda: Library, size: int) -> list[object]:
    """Find and run a kernel and find a variable, whose names have `size` characters."""
    kernel, variable = "k" + "a" * (size - 1), "g" + "b" * (size - 1)
    module, function, first = c_void_p(), c_void_p(), c_void_p()
    address, found, count, name = c_uint64(), c_size_t(), c_uint(), c_char_p()
    value = c_uint()
    parameters = (c_void_p * 1)(ctypes.addressof(address))
    codes = [
        cuda.call("cuModuleLoadData", byref(module), text_with(kernel, variable)),
        cuda.call("cuModuleGetFunction", byref(function), module, kernel.encode()),
        cuda.call("cuModuleGetGlobal_v2", byref(address), byref(found), module, variable.encode()),
        cuda.call("cuModuleGetFunctionCount", byref(count), module),
        cuda.call("cuModuleEnumerateFunctions", byref(first), 1, module),
        cuda.call("cuFuncGetName", byref(name), first),
        cuda.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None),
        cuda.call("cuMemcpyDtoH_v2", byref(value), address, c_size_t(4)),
    ]
    return [codes, found.value, value.value, name.value == kernel.encode()]


def missing(cuda: Library, size: int) -> list[object]:
    """Look for a kernel and a variable that the module does not have."""
    module, name, out, bytes_ = c_void_p(), b"m" * size, c_uint64(), c_size_t()
    cuda.call("cuModuleLoadData", byref(module), text_with("k", "g"))
    return [
        cuda.call("cuModuleGetFunction", byref(out), module, name),
        cuda.call("cuModuleGetGlobal_v2", byref(out), byref(bytes_), module, name),
    ]


def dependencies(cuda: Library, size: int) -> list[object]:
    """Add a node that depends on `size` others, add edges to another one, and run the graph."""
    graph, node, exec_ = c_void_p(), c_void_p(), c_void_p()
    nodes, last, other = (c_void_p * size)(), c_void_p(), c_void_p()
    cuda.call("cuGraphCreate", byref(graph), 0)
    for i in range(size):
        cuda.call("cuGraphAddEmptyNode", byref(node), graph, None, c_size_t(0))
        nodes[i] = node.value
    codes = [
        cuda.call("cuGraphAddEmptyNode", byref(last), graph, nodes, c_size_t(size)),
        cuda.call("cuGraphAddEmptyNode", byref(other), graph, None, c_size_t(0)),
    ]
    to, count = (c_void_p * size)(*[other.value] * size), c_size_t()
    codes += [
        cuda.call("cuGraphAddDependencies_v2", graph, nodes, to, None, c_size_t(size)),
        cuda.call("cuGraphGetEdges_v2", graph, None, None, None, byref(count)),
        cuda.call("cuGraphInstantiateWithFlags", byref(exec_), graph, c_uint64(0)),
        cuda.call("cuGraphLaunch", exec_, None),
        cuda.call("cuCtxSynchronize"),
    ]
    return [codes, count.value]


def log(cuda: Library, size: int) -> list[object]:
    """Load text with an error in a name of `size` characters. Return the code and the log."""
    name, module = "u" * size, c_void_p()
    text = f"{HEAD}.visible .entry k() {{ {name} %a; ret; }}\n".encode()
    buffer = ctypes.create_string_buffer(2 * size)
    options = (c_uint * 2)(ERROR_LOG, ERROR_LOG_BYTES)
    values = (c_void_p * 2)(ctypes.addressof(buffer), 2 * size)
    code = cuda.call("cuModuleLoadDataEx", byref(module), text, 2, options, values)
    return [code, buffer.value.decode(), values[1]]


def link(cuda: Library, size: int) -> list[object]:
    """Link `size` inputs and find the kernel of the last one."""
    state, image, bytes_, module, function = (
        c_void_p(),
        c_void_p(),
        c_size_t(),
        c_void_p(),
        c_void_p(),
    )
    codes = [cuda.call("cuLinkCreate_v2", 0, None, None, byref(state))]
    for i in range(size):
        text = f"{HEAD}.visible .entry k{i}() {{ ret; }}\n".encode()
        arguments = (state, PTX_INPUT, text, c_size_t(len(text) + 1), b"text", 0, None, None)
        codes.append(cuda.call("cuLinkAddData_v2", *arguments))
    codes += [
        cuda.call("cuLinkComplete", state, byref(image), byref(bytes_)),
        cuda.call("cuModuleLoadData", byref(module), image),
        cuda.call("cuModuleGetFunction", byref(function), module, f"k{size - 1}".encode()),
    ]
    return [sorted(set(codes))]


ACTIONS: dict[str, Callable[[Library, int], list[object]]] = {
    "names": names,
    "missing": missing,
    "dependencies": dependencies,
    "log": log,
    "link": link,
}


def main() -> None:
    action, size = sys.argv[1:]
    print(json.dumps(ACTIONS[action](Library(), int(size))))


if __name__ == "__main__":
    main()
