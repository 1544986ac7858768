"""All rows of the page and the programs that produce them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deploy.supervisor import BUILD, ROOT
from tests.remoting.test_conformance import ONLY_OURS
from tests.remoting.test_conformance import PROGRAMS as CONFORMANCE

HERE = Path(__file__).parent
TORCH_PROGRAM = ROOT / "tests" / "remoting" / "programs" / "torch_program.py"


@dataclass(frozen=True)
class Setting:
    """Settings of a run: Python with PyTorch, a function that compiles C programs, steps."""

    torch: str
    compiled: Callable[[Path], Path]
    steps: int


@dataclass(frozen=True)
class Part:
    """A program that runs natively and remoted.

    Its last line of output is a JSON object `{"figures": {row: number}, "digests": {row: text}}`.
    With `whole`, the whole output is the digest of its only row. Figures are compared as a ratio;
    digests must be equal.
    """

    name: str
    command: Callable[[Setting], list[str | Path]]
    figures: dict[str, str] = field(default_factory=dict)
    """Unit by row."""
    digests: tuple[str, ...] = ()
    whole: bool = False
    native_only: bool = False
    torch: bool = False


def compiled(source: Path) -> Callable[[Setting], list[str | Path]]:
    return lambda s: [s.compiled(source)]


def torch_part(name: str, *digests: str) -> Part:
    return Part(
        f"torch {name}",
        lambda s: [s.torch, TORCH_PROGRAM, name],
        digests=tuple(f"{name}: {d}" for d in digests),
        torch=True,
    )


def training_part(name: str, figure: str, unit: str, digest: str = "") -> Part:
    def command(s: Setting) -> list[str | Path]:
        return [s.torch, HERE / "training.py", name, str(s.steps)]

    return Part(
        name, command, figures={figure: unit}, digests=(digest,) if digest else (), torch=True
    )


CALLS = {
    "init_to_first_kernel_ms": "ms",
    "enqueue_p50_ns": "ns",
    "enqueue_p99_ns": "ns",
    "launches_per_s_1t": "1/s",
    "launches_per_s_2t": "1/s",
    "launches_per_s_4t": "1/s",
    "sync_us": "µs",
    "event_record_query_ns": "ns",
    "alloc_2mib_us": "µs",
    "h2d_64b_ns": "ns",
    "d2h_4b_us": "µs",
    "h2d_64mib_gib_s": "GiB/s",
    "d2h_64mib_gib_s": "GiB/s",
    "h2d_64mib_pageable_gib_s": "GiB/s",
    "d2h_64mib_pageable_gib_s": "GiB/s",
    "training_step_us": "µs",
}
PROPERTIES = {
    "largest address reservation": "GiB",
    "context memory": "MiB",
    "stream writes visible before the preceding copy": "",
    "kernel event time, alone": "ms",
    "kernel event time, beside another context": "ms",
}

PARTS = (
    *(
        Part(
            f"conformance {n}",
            compiled(ROOT / "tests" / "remoting" / "programs" / f"{n}.c"),
            digests=(f"output of {n}.c",),
            whole=True,
        )
        for n in CONFORMANCE
        if n not in ONLY_OURS
    ),
    Part("driver calls", lambda s: [BUILD / "bench" / "driver_calls"], figures=CALLS),
    Part(
        "properties",
        compiled(HERE / "driver_properties.c"),
        figures=PROPERTIES,
        native_only=True,
    ),
    torch_part("operations", "results"),
    torch_part("training", "SGD losses", "Adam losses"),
    torch_part("amp", "loss"),
    torch_part("streams", "bytes"),
    torch_part("graphs", "results"),
    torch_part("loader", "batches"),
    torch_part("compiled", "results"),
    training_part("resnet152", "ResNet-152, batch 1, inference", "ms", "ResNet-152 output"),
    training_part("resnet50", "ResNet-50 training step, batch 32", "ms", "ResNet-50 losses"),
    training_part("bert", "BERT-base training step, batch 8 × 128", "ms", "BERT-base losses"),
    training_part("gpt2", "GPT-2 small training step, batch 4 × 256", "ms", "GPT-2 small losses"),
    training_part(
        "eager_gpt", "launch-bound eager GPT, 24 layers of width 256", "ms", "eager GPT logits"
    ),
    training_part("copies", "copies of 1 GiB, pinned, both ways", "ms"),
)
SHARES = {"share of the 25 % partition": "%", "share of the 75 % partition": "%"}
"""Share of the launches of two programs on partitions of one GPU; see partitions.py."""
SUITES = ("numba_cuda: cudadrv", "numba_cuda: cudapy", "CuPy: cuda_tests")
"""Third-party test suites: tests that pass natively and fail remoted; see suites.py."""
