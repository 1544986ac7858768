"""Libraries that stand before libcuda and libnvidia-ml and count the calls of a program.

They export the functions of the client libraries, forward each call, and count its result in a file
that all processes share. CUDA_ERROR_NOT_READY is not counted, because it depends on time only. The
product's libraries have no counters. With BUSBAR_RECORD_SHOWS_FAILURES, each call that fails is
printed to standard error, which shows why a library of others fails. Tests plant faults by
BUSBAR_PLANTED_CRASH (a failing call of the function ends the process), BUSBAR_PLANTED_SUCCESS (each
call succeeds) and BUSBAR_PLANTED_ERROR (each call fails).
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import BUILD
from remoting.codegen.libraries import BANNER, declare
from tests.remoting.calls.exported import Function, functions
from tests.remoting.conftest import cuda_include

SONAMES = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}
HEAD = """\
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <nvml.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#undef cuGetProcAddress
"""
SUPPORT = """\
static void* real[COUNT];
static struct { unsigned long long succeeded, failed; }* counts;
__attribute__((constructor)) static void open_record(void) {
  void* library = dlopen(getenv("BUSBAR_RECORDED_" KIND), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  int file = open(getenv("BUSBAR_CALL_RECORD_" KIND), O_RDWR | O_CREAT, 0600);
  if (!library || file < 0 || ftruncate(file, COUNT * sizeof *counts)) {
    fprintf(stderr, "the recorder has no library or no file: %s\\n", dlerror());
    abort();
  }
  counts = mmap(0, COUNT * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  for (int i = 0; i < COUNT; ++i) real[i] = dlsym(library, names[i]);
}
static const char *crash, *accept, *fail, *shows;
__attribute__((constructor)) static void read_faults(void) {
  crash = getenv("BUSBAR_PLANTED_CRASH");
  accept = getenv("BUSBAR_PLANTED_SUCCESS");
  fail = getenv("BUSBAR_PLANTED_ERROR");
  shows = getenv("BUSBAR_RECORD_SHOWS_FAILURES");
}
static int count(int i, int result) {
  if (result != CUDA_ERROR_NOT_READY)
    __atomic_fetch_add(result ? &counts[i].failed : &counts[i].succeeded, 1, __ATOMIC_RELAXED);
  if (shows && result) dprintf(2, "%s -> %d\\n", names[i], result);
  if (crash && result && !strcmp(crash, names[i])) abort();
  if (accept && !strcmp(accept, names[i])) return 0;
  if (fail && !strcmp(fail, names[i])) return 700;
  return result;
}
"""
REPLACE = """\
static void replace(void** found) {
  for (int i = 0; found && *found && i < COUNT; ++i)
    if (*found == real[i]) {
      *found = own[i];
      return;
    }
}
"""
ERROR_STRING = """\
const char* nvmlErrorString(nvmlReturn_t result) {
  void* library = dlopen(getenv("BUSBAR_RECORDED_NVML"), RTLD_NOW);
  return ((const char* (*)(nvmlReturn_t))dlsym(library, "nvmlErrorString"))(result);
}
"""


@dataclass(frozen=True)
class Counts:
    succeeded: int
    failed: int


def wrapper(function: Function, number: int) -> str:
    """Return the definition of a function that forwards and counts."""
    kinds = ", ".join(a.parameter.type for a in function.arguments) or "void"
    declared = ", ".join(declare(a.parameter, i) for i, a in enumerate(function.arguments))
    values = ", ".join(f"a{i}" for i in range(len(function.arguments)))
    result = "CUresult" if function.library == "cuda" else "nvmlReturn_t"
    after = ""
    if function.name.startswith("cuGetProcAddress"):
        after = "  if (!r) replace(a1);\n"
    return (
        f"{result} {function.name}({declared or 'void'}) {{\n"
        f"  {result} r = (({result} (*)({kinds}))real[{number}])({values});\n{after}"
        f"  return ({result})count({number}, (int)r);\n}}\n"
    )


def source(library: str) -> str:
    chosen = [f for f in functions() if f.library == library]
    names = "".join(f'  "{f.name}",\n' for f in chosen)
    lines = [BANNER, HEAD, f'#define COUNT {len(chosen)}\n#define KIND "{library.upper()}"\n']
    lines += [f"static const char* const names[] = {{\n{names}}};\n", SUPPORT]
    if library == "cuda":
        lines += ["static void* own[COUNT];\n", REPLACE]
        lines += [wrapper(f, i) for i, f in enumerate(chosen)]
        own = "".join(f"  own[{i}] = (void*){f.name};\n" for i, f in enumerate(chosen))
        lines += [f"__attribute__((constructor)) static void list_own(void) {{\n{own}}}\n"]
    else:
        lines += [wrapper(f, i) for i, f in enumerate(chosen)] + [ERROR_STRING]
    return "".join(lines)


class Recorder:
    """The two libraries in a folder, and the record of the programs that use them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for library, soname in SONAMES.items():
            text = folder / f"{library}.c"
            text.write_text(source(library))
            flags = ["-shared", "-fPIC", "-O0", "-w", f"-Wl,-soname,{soname}"]
            command: list[str | Path] = [
                "gcc",
                *flags,
                f"-I{cuda_include()}",
                "-o",
                folder / soname,
                text,
                "-ldl",
            ]
            subprocess.run(command, check=True)

    def environment(self, real: Path, record: Path) -> dict[str, str]:
        """Return the variables of a program whose calls of the libraries in `real` are counted."""
        variables = {"LD_LIBRARY_PATH": str(self.folder)}
        for library, soname in SONAMES.items():
            variables[f"BUSBAR_RECORDED_{library.upper()}"] = str(real / soname)
            variables[f"BUSBAR_CALL_RECORD_{library.upper()}"] = str(record / library)
        return variables


def read_record(folder: Path) -> dict[str, Counts]:
    """Return the counts of the functions that were called."""
    found = {}
    for library in SONAMES:
        path = folder / library
        chosen = [f.name for f in functions() if f.library == library]
        counts = list(struct.iter_unpack("QQ", path.read_bytes())) if path.exists() else []
        for name, (succeeded, failed) in zip(chosen, counts, strict=False):
            if succeeded or failed:
                found[name] = Counts(succeeded, failed)
    return found


CLIENT = BUILD / "client"
