"""The exported functions of both client libraries, with their prototypes and a valid call of each.

`arguments.txt` holds the arguments that the type and the name of a parameter do not give.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from remoting.codegen import headers
from remoting.codegen.headers import Parameter, Prototype
from remoting.codegen.libraries import PROFILER, TYPEDEFS
from tests.remoting.conftest import cuda_include

ARGUMENTS = Path(__file__).parent / "arguments.txt"
OPAQUE_HANDLE = re.compile(r"CU\w+|nvml\w+_t")
HANDLES = {
    "CUcontext": "context",
    "CUstream": "stream",
    "CUevent": "event",
    "CUmodule": "module",
    "CUfunction": "function",
    "CUlibrary": "library",
    "CUkernel": "kernel",
    "CUlinkState": "linker",
    "CUdeviceptr": "pointer",
    "CUdeviceptr_v1": "pointer",
    "CUmemGenericAllocationHandle": "allocation",
    "CUmemoryPool": "pool",
    "CUarray": "array",
    "CUmipmappedArray": "mipmap",
    "CUtexObject": "texture",
    "CUsurfObject": "surface",
    "CUuserObject": "user_object",
    "CUgraph": "graph",
    "CUgraphNode": "node",
    "CUgraphExec": "exec",
    "CUgraphConditionalHandle": "condition",
    "nvmlDevice_t": "nvml_device",
}
STRUCTURES = {
    "CUDA_MEMCPY2D": "copy2d",
    "CUDA_MEMCPY3D": "copy3d",
    "CUDA_MEMCPY3D_PEER": "copy3d_peer",
    "CUDA_MEMCPY3D_BATCH_OP": "copy3d_operation",
    "CUmemcpyAttributes": "copy_attributes",
    "CUDA_MEMSET_NODE_PARAMS": "memset",
    "CUDA_KERNEL_NODE_PARAMS": "kernel_node",
    "CUDA_KERNEL_NODE_PARAMS_v1": "kernel_node",
    "CUDA_HOST_NODE_PARAMS": "host_node",
    "CUDA_BATCH_MEM_OP_NODE_PARAMS": "batch_node",
    "CUstreamBatchMemOpParams": "write_value",
    "CUDA_ARRAY_DESCRIPTOR": "array_description",
    "CUDA_ARRAY3D_DESCRIPTOR": "array3d_description",
    "CUDA_RESOURCE_DESC": "array_resource",
    "CUlaunchConfig": "launch_configuration",
    "CUmemLocation": "location",
    "CUmemAllocationProp": "allocation_properties",
    "CUmemAccessDesc": "access_description",
    "CUmemPoolProps": "pool_properties",
    "CUgraphNodeParams": "memset_node",
    "CUgraphNode": "handle:node",
}
BY_VALUE = {
    "CUmemLocation": "location",
    "CUipcMemHandle": "memory_handle",
    "CUipcEventHandle": "out",
}
CALLBACKS = re.compile(r"CU(hostFn|streamCallback|\w*Callback|occupancyB2DSize)$")
GRID = re.compile(r"gridDim[XYZ]|grid_\w+|blockDim[XYZ]|[xyz]$")
COUNTED = re.compile(r"(num|count)", re.IGNORECASE)
SCALAR_OUT = re.compile(
    r"(unsigned int|int|size_t|unsigned long long|cuuint64_t|CU\w+(mode|Status|config|cache|"
    r"flags|Type)) ?\*"
)


@dataclass(frozen=True)
class Argument:
    """The valid value of a parameter.

    `form` is h (handle of the kind `value`), p (pointer to what `value` names), o (pointer to a
    printed result), P (pointer whose target stays), a (address in any memory), n (number), g (size
    of a geometry), k (number that stays), r (device with a retained primary context), f (float),
    c (callback), s (structure).
    """

    parameter: Parameter
    form: str
    value: str


@dataclass(frozen=True)
class Function:
    prototype: Prototype
    library: str
    arguments: tuple[Argument, ...]

    @property
    def name(self) -> str:
        return self.prototype.symbol


def default(parameter: Parameter) -> tuple[str, str]:
    """Return form and value for the type and the name of a parameter."""
    kind = parameter.type.replace("const ", "").strip()
    if kind in HANDLES:
        return "h", HANDLES[kind]
    if kind in BY_VALUE:
        return "s", BY_VALUE[kind]
    if CALLBACKS.match(kind):
        return "c", "callback"
    if kind == "float":
        return "f", "1"
    if kind.endswith("*"):
        structure = STRUCTURES.get(kind.removesuffix("*").strip())
        constant = "const" in parameter.type
        if structure and (constant or structure != "handle:node"):
            return "p", structure
        return ("o" if SCALAR_OUT.fullmatch(kind) and not constant else "p"), "out"
    if kind == "CUdevice":
        return "n", "0"
    if GRID.match(parameter.name):
        return "g", "1"
    if kind.startswith("nvml") and kind.endswith("_t") and kind in OPAQUE_NVML:
        return "h", "nvml_none"
    return "n", number(parameter.name)


OPAQUE_NVML = {"nvmlUnit_t", "nvmlEventSet_t", "nvmlGpuInstance_t", "nvmlComputeInstance_t"}


def number(name: str) -> str:
    lower = name.lower()
    if "bytes" in lower or "size" in lower or lower in {"n", "length", "bytecount", "len"}:
        return "64"
    if "pitch" in lower:
        return "64"
    if lower in {"width", "height", "widthinbytes"} or COUNTED.match(lower):
        return "1"
    return "0"


def overrides() -> dict[str, dict[str, tuple[str, str]]]:
    """Return form and value of parameters by function, from arguments.txt."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in ARGUMENTS.read_text().splitlines():
        names, *words = line.partition("#")[0].split() or [""]
        for name in filter(None, names.split(",")):
            for word in words:
                parameter, _, rest = word.partition("=")
                form, _, value = rest.partition(":")
                found.setdefault(name, {})[parameter] = (form, value)
    return found


def arguments(prototype: Prototype, special: dict[str, tuple[str, str]]) -> tuple[Argument, ...]:
    return tuple(Argument(p, *special.get(p.name, default(p))) for p in prototype.parameters)


def prototypes() -> dict[str, Prototype]:
    """Return all exported functions. Those of the graphics headers have no parameters here."""
    include = cuda_include()
    found = headers.cuda_prototypes(include / "cuda.h")
    found |= {name: Prototype(name, ()) for name in headers.graphics_functions(include)}
    found |= {name: Prototype(name, ()) for name in PROFILER}
    text = Parameter("const char *", "file")
    found["cuProfilerInitialize"] = Prototype(
        "cuProfilerInitialize",
        (text, Parameter("const char *", "output"), Parameter("int", "mode")),
    )
    return found | headers.nvml_functions(include / "nvml.h")


@cache
def functions() -> tuple[Function, ...]:
    """Return the exported functions by name."""
    special = overrides()
    found = prototypes()
    used = set[str]()
    rows = []
    for name in sorted(found):
        base = headers.base_name(name)
        rule = (
            special.get(name) or special.get(base) or special.get(re.sub(r"_v\d+$", "", base), {})
        )
        used |= {n for n in (name, base, re.sub(r"_v\d+$", "", base)) if n in special}
        library = "nvml" if name.startswith("nvml") else "cuda"
        rows.append(Function(found[name], library, arguments(found[name], rule)))
    if unused := set(special) - used:
        raise ValueError(f"arguments.txt names unknown functions: {sorted(unused)}")
    return tuple(rows)


def entry_points() -> list[headers.EntryPoint]:
    """Return every row of the cuGetProcAddress table that a program can include."""
    include, names = cuda_include(), {f.name for f in functions()}
    return [row for t in TYPEDEFS for row in headers.entry_points(include / t, names)]
