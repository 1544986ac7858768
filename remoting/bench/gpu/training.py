"""One PyTorch workload: `training.py NAME STEPS`.

The last line of the output is a JSON object with its figure and the digest of its results.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

# Makes the order of cuBLAS additions equal in every run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
from models import bert_base, gpt2_small, resnet, small_gpt  # type: ignore[import-not-found]
from torch import nn

WARM_UP_STEPS = 3


def digest(*tensors: torch.Tensor) -> str:
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().float().cpu().numpy().tobytes())
    return h.hexdigest()[:16]


def timed(step: Callable[[], torch.Tensor], steps: int) -> tuple[float, list[torch.Tensor]]:
    """Return the median duration of a step in milliseconds, and the results of all steps.

    Each step is synchronised, as in a training loop that prints its loss.
    """
    outs, times = [], []
    for i in range(WARM_UP_STEPS + steps):
        started = time.perf_counter()
        outs.append(step().detach().cpu())
        if i >= WARM_UP_STEPS:
            times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times), outs


def training(
    model: nn.Module, batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]
) -> Callable[[], torch.Tensor]:
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> torch.Tensor:
        x, labels = batch()
        optimizer.zero_grad(set_to_none=True)
        out = model(x)
        loss = nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def images(count: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    return lambda: (
        torch.randn(count, 3, 224, 224).cuda(non_blocking=True),
        torch.randint(0, 1000, (count,)).cuda(),
    )


def words(
    count: int, length: int, vocabulary: int
) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    return lambda: (
        torch.randint(0, vocabulary, (count, length)).cuda(),
        torch.randint(0, vocabulary, (count, length)).cuda(),
    )


def inference(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    model, x = model.cuda().eval(), x.cuda()

    def step() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return step


def copies() -> Callable[[], torch.Tensor]:
    there, back = torch.randn(1 << 28).pin_memory(), torch.empty(1 << 28).pin_memory()
    on_gpu = torch.empty(1 << 28, device="cuda")

    def step() -> torch.Tensor:
        on_gpu.copy_(there, non_blocking=True)
        back.copy_(on_gpu, non_blocking=True)
        torch.cuda.synchronize()
        return back[:1]

    return step


# Row of the figure, row of the digest, function that creates the step.
WORKLOADS: dict[str, tuple[str, str, Callable[[], Callable[[], torch.Tensor]]]] = {
    "resnet152": (
        "ResNet-152, batch 1, inference",
        "ResNet-152 output",
        lambda: inference(resnet(3, 8, 36, 3), torch.randn(1, 3, 224, 224)),
    ),
    "resnet50": (
        "ResNet-50 training step, batch 32",
        "ResNet-50 losses",
        lambda: training(resnet(3, 4, 6, 3), images(32)),
    ),
    "bert": (
        "BERT-base training step, batch 8 × 128",
        "BERT-base losses",
        lambda: training(bert_base(), words(8, 128, 30522)),
    ),
    "gpt2": (
        "GPT-2 small training step, batch 4 × 256",
        "GPT-2 small losses",
        lambda: training(gpt2_small(), words(4, 256, 50257)),
    ),
    "eager_gpt": (
        "launch-bound eager GPT, 24 layers of width 256",
        "eager GPT logits",
        lambda: inference(small_gpt(), torch.randint(0, 1024, (1, 64))),
    ),
    "copies": ("copies of 1 GiB, pinned, both ways", "", copies),
}


def main() -> None:
    figure, digest_name, create_step = WORKLOADS[sys.argv[1]]
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    milliseconds, outs = timed(create_step(), int(sys.argv[2]))
    digests = {digest_name: digest(*outs)} if digest_name else {}
    print(json.dumps({"figures": {figure: milliseconds}, "digests": digests}))


if __name__ == "__main__":
    main()
