"""The measured GPU (NVIDIA or software) and a node that serves it."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from deploy.supervisor import BUILD, SOFTGPU
from nodes.launcher_control import Partition
from remoting.bench.shared_node import SharedNode
from tests.remoting.node import gpu_uuids, softgpu_environment

ARENA_SHARE = 0.9
"""Share of the GPU's memory for remoted runs; the rest is for contexts of native runs."""


@dataclass(frozen=True)
class Gpu:
    name: str
    uuid: uuid.UUID
    memory_bytes: int
    driver: str
    library: Path
    software: bool

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the environment of a program that runs without remoting."""
        return (
            softgpu_environment(folder) | {"LD_LIBRARY_PATH": str(SOFTGPU)}
            if self.software
            else dict(os.environ)
        )


def nvidia_gpu() -> Gpu:
    """Return the first GPU of nvidia-smi. Raises SystemExit if there is none."""
    query = [
        "nvidia-smi",
        "--query-gpu=name,uuid,memory.total,driver_version",
        "--format=csv,noheader,nounits",
    ]
    try:
        line = subprocess.run(
            query, capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as e:
        raise SystemExit(
            "nvidia-smi found no NVIDIA GPU. Test the suite with: ./bench gpu --software"
        ) from e
    name, identity, mib, version = (word.strip() for word in line.split(","))
    return Gpu(
        name,
        uuid.UUID(identity.removeprefix("GPU-")),
        int(mib) << 20,
        version,
        Path("libcuda.so.1"),
        software=False,
    )


def software_gpu(folder: Path) -> Gpu:
    return Gpu(
        "software GPU",
        gpu_uuids(softgpu_environment(folder))[0],
        4 << 30,
        "software",
        SOFTGPU / "libcuda.so.1",
        software=True,
    )


def versions(gpu: Gpu, torch_python: str) -> dict[str, str]:
    """Return hardware and software versions for the report."""
    details = {
        "gpu": gpu.name,
        "driver": gpu.driver,
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    line = "import torch; print(torch.__version__, torch.version.cuda)"
    done = subprocess.run([torch_python, "-c", line], capture_output=True, text=True, check=False)
    return details | {"torch": done.stdout.strip() or "none"}


def processor() -> str:
    found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def cuda_include() -> Path:
    """Return the include folder of the CUDA toolkit, or of NVIDIA's wheel. Raises SystemExit."""
    roots = [
        Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include",
        *(Path(p) / "nvidia" / "cu13" / "include" for p in sys.path),
    ]
    for folder in roots:
        if (folder / "cuda.h").exists():
            return folder
    raise SystemExit("cuda.h not found. Set CUDA_HOME to the folder of the CUDA toolkit.")


def compile_program(source: Path, folder: Path) -> Path:
    """Compile a program once and return its path.

    It is linked with the client library, which exports every function; LD_LIBRARY_PATH selects the
    library at run time.
    """
    texts = [source, *sorted(source.parent.glob("*.h"))]
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in texts)).hexdigest()[:12]
    target = folder / f"{source.stem}-{digest}"
    if not target.exists():
        flags = ["-O1", f"-I{cuda_include()}", f"-I{source.parent}"]
        subprocess.run(
            [
                "gcc",
                *flags,
                "-o",
                target,
                source,
                f"-L{BUILD / 'client'}",
                "-l:libcuda.so.1",
                "-lpthread",
            ],
            check=True,
        )
    return target


class GpuNode(SharedNode):
    """A node with one GPU, granted as one large allocation or as several shares."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        # A software GPU of another folder is another GPU.
        super().__init__(gpu.library, gpus=[] if gpu.software else [gpu.uuid])
        self.partitions = (Partition(self.gpus[0], self.arena_bytes(), 100),)
        self.grant()

    def arena_bytes(self) -> int:
        """Return the memory of the GPU that allocations get."""
        return int(self.gpu.memory_bytes * ARENA_SHARE)
