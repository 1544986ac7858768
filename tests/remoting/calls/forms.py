"""The values that cuda.h and nvml.h declare for an argument: enumerators, and flags by name.

The prototypes of many functions say `unsigned int` for flags; FLAGS has what they take.
"""

from __future__ import annotations

import re
from functools import cache

from remoting.codegen import enumerations, headers
from tests.remoting.calls.exported import Argument, Function
from tests.remoting.conftest import cuda_include

ALIASES = {"CUstreamAttrID": "CUlaunchAttributeID", "CUkernelNodeAttrID": "CUlaunchAttributeID"}
FLAGS = {
    ("cuCtxCreate", "flags"): "CUctx_flags",
    ("cuCtxSetFlags", "flags"): "CUctx_flags",
    ("cuDevicePrimaryCtxSetFlags", "flags"): "CUctx_flags",
    ("cuEventCreate", "Flags"): "CUevent_flags",
    ("cuEventRecordWithFlags", "flags"): "CUevent_record_flags",
    ("cuGetProcAddress", "flags"): "CUdriverProcAddress_flags",
    ("cuGraphConditionalHandleCreate", "flags"): "CU_GRAPH_COND_",
    ("cuGraphDebugDotPrint", "flags"): "CUgraphDebugDot_flags",
    ("cuGraphInstantiateWithFlags", "flags"): "CUgraphInstantiate_flags",
    ("cuGraphRetainUserObject", "flags"): "CUuserObjectRetain_flags",
    ("cuGreenCtxCreate", "flags"): "CUgreenCtxCreate_flags",
    ("cuIpcOpenMemHandle", "Flags"): "CUipcMem_flags",
    ("cuMemAllocManaged", "flags"): "CUmemAttach_flags",
    ("cuMemHostAlloc", "Flags"): "CU_MEMHOSTALLOC_",
    ("cuMemHostRegister", "Flags"): "CU_MEMHOSTREGISTER_",
    ("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "flags"): "CUoccupancy_flags",
    ("cuOccupancyMaxPotentialBlockSizeWithFlags", "flags"): "CUoccupancy_flags",
    ("cuStreamAttachMemAsync", "flags"): "CUmemAttach_flags",
    ("cuStreamCreate", "Flags"): "CUstream_flags",
    ("cuStreamCreateWithPriority", "flags"): "CUstream_flags",
    ("cuStreamUpdateCaptureDependencies", "flags"): "CUstreamUpdateCaptureDependencies_flags",
    ("cuStreamWaitEvent", "Flags"): "CUevent_wait_flags",
    ("cuStreamWaitValue32", "flags"): "CUstreamWaitValue_flags",
    ("cuStreamWaitValue64", "flags"): "CUstreamWaitValue_flags",
    ("cuStreamWriteValue32", "flags"): "CUstreamWriteValue_flags",
    ("cuStreamWriteValue64", "flags"): "CUstreamWriteValue_flags",
    ("cuTexRefSetFlags", "Flags"): "CU_TRSF_",
    ("cuUserObjectCreate", "flags"): "CUuserObject_flags",
    ("nvmlInitWithFlags", "flags"): "NVML_INIT_FLAG_",
}
"""Enumeration of a parameter by function and name, or the prefix of its macros."""


@cache
def declared() -> dict[str, tuple[str, ...]]:
    """Return the names of the values of each enumeration and of each prefix in FLAGS."""
    include = cuda_include()
    found: dict[str, tuple[str, ...]] = {}
    for header in (include / "cuda.h", include / "nvml.h"):
        text = header.read_text(errors="replace")
        found |= {kind: tuple(names) for kind, names in enumerations.of_header(header).items()}
        for prefix in (p for p in FLAGS.values() if p.endswith("_")):
            macros = re.findall(rf"^#define ({prefix}\w+)\s+\S", text, re.MULTILINE)
            found |= {prefix: tuple(macros)} if macros else {}
    return found


def kind_of(function: Function, argument: Argument) -> str:
    """Return the key in `declared` of an argument; empty if the headers declare no values."""
    if argument.form != "n":
        return ""
    base = re.sub(r"_v\d+$", "", headers.base_name(function.name))
    kind = argument.parameter.type.replace("const ", "").strip()
    kind = FLAGS.get((base, argument.parameter.name), ALIASES.get(kind, kind))
    return kind if kind in declared() else ""
