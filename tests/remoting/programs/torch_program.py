"""Parts of PyTorch that exercise the driver: `python torch_program.py PART`.

The last line of the output is a JSON object with digests of the results. On the null driver kernels
compute nothing, so only the protocol is tested.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

# Makes the order of cuBLAS additions equal in every run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch

Digests = dict[str, str]


def digest(*tensors: torch.Tensor) -> str:
    h = hashlib.sha256()
    for t in tensors:
        plain = torch.view_as_real(t) if t.is_complex() else t.float()
        h.update(plain.detach().cpu().numpy().tobytes())
    return h.hexdigest()[:16]


def model(width: int = 32) -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [
        torch.nn.Linear(width, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 8),
    ]
    return torch.nn.Sequential(*layers).cuda()


def steps(optimizer_class: type, count: int = 5, **options: float) -> str:
    m, losses = model(), []
    optimizer = optimizer_class(m.parameters(), lr=0.1, **options)
    for _ in range(count):
        optimizer.zero_grad()
        loss = m(torch.randn(16, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return digest(*losses)


def operations() -> Digests:
    assert torch.cuda.is_available()
    x = torch.zeros(4, device="cuda")
    repr(x + x)
    r = torch.randn(64, 64, device="cuda")
    results = [r.to(kind) @ r.to(kind) for kind in (torch.float32, torch.bfloat16, torch.float16)]
    results += [y.sum() for y in results]
    results += [
        torch.nn.Conv2d(3, 8, 3).cuda()(torch.randn(2, 3, 16, 16, device="cuda")),
        torch.fft.fft(torch.randn(64, device="cuda")),
        torch.linalg.solve(r, torch.randn(64, 2, device="cuda")),
        torch.sort(torch.randn(1000, device="cuda"))[0],
        torch.sparse.mm(torch.eye(8).to_sparse().cuda(), torch.randn(8, 8, device="cuda")),
    ]
    torch.cuda.synchronize()
    return {"results": digest(*results)}


def training() -> Digests:
    return {"SGD losses": steps(torch.optim.SGD), "Adam losses": steps(torch.optim.Adam)}


def amp() -> Digests:
    m, scaler = model(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = m(torch.randn(16, 32, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return {"loss": digest(loss)}


def streams() -> Digests:
    pinned = torch.randn(100_000).pin_memory()
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        on_gpu = pinned.to("cuda", non_blocking=True)
        event.record()
    torch.cuda.current_stream().wait_event(event)
    back = on_gpu.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, pinned)
    assert event.query()
    return {"bytes": digest(back)}


def graphs() -> Digests:
    x = torch.randn(64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            y = x * 2 + 1
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert y.shape == x.shape
    return {"results": digest(y)}


def loader() -> Digests:
    data = torch.utils.data.TensorDataset(torch.arange(256).float())
    batches = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
    seen = sorted(float(v) for (b,) in batches for v in b.to("cuda", non_blocking=True).cpu())
    assert seen == [float(i) for i in range(256)]
    return {"batches": digest(torch.tensor(seen))}


def memory() -> Digests:
    free, total = torch.cuda.mem_get_info()
    blocks = [torch.empty(1 << 20, device="cuda") for _ in range(20)]
    assert torch.cuda.memory_allocated() >= 20 << 22
    del blocks
    torch.cuda.empty_cache()
    assert 0 < free <= total
    try:
        torch.empty(1 << 50, device="cuda", dtype=torch.uint8)
        raise AssertionError("an allocation of a petabyte succeeded")
    except torch.cuda.OutOfMemoryError:
        return {}


def compiled() -> Digests:
    f = torch.compile(lambda a, b: (a * b).sin() + a)
    results = [f(torch.randn(64, device="cuda"), torch.randn(64, device="cuda"))]
    m = torch.compile(model(), mode="reduce-overhead")
    results += [m(torch.randn(16, 32, device="cuda")).clone() for _ in range(3)]
    torch.cuda.synchronize()
    return {"results": digest(*results)}


PARTS = {
    f.__name__: f for f in (operations, training, amp, streams, graphs, loader, memory, compiled)
}

if __name__ == "__main__":
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    part = sys.argv[1]
    digests = {f"{part}: {name}": value for name, value in PARTS[part]().items()}
    print(json.dumps({"digests": digests}))
