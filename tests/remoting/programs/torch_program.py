"""What PyTorch asks of a driver, part by part. Over the null driver kernels compute nothing, so only the protocol is tested; on a GPU the sums are too.

`python torch_program.py PART` runs one part; each prints `done`.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys

import torch


def model(width: int = 32) -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(width, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)]
    return torch.nn.Sequential(*layers).cuda()


def steps(optimizer_class: type, count: int = 5, **options: float) -> None:
    m = model()
    optimizer = optimizer_class(m.parameters(), lr=0.1, **options)
    for _ in range(count):
        optimizer.zero_grad()
        loss = m(torch.randn(16, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        float(loss.detach())


def operations() -> None:
    assert torch.cuda.is_available()
    x = torch.zeros(4, device="cuda")
    repr(x + x)
    r = torch.randn(64, 64, device="cuda")
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        (r.to(kind) @ r.to(kind)).sum()
    torch.nn.Conv2d(3, 8, 3).cuda()(torch.randn(2, 3, 16, 16, device="cuda"))
    torch.fft.fft(torch.randn(64, device="cuda"))
    torch.linalg.solve(r, torch.randn(64, 2, device="cuda"))
    torch.sort(torch.randn(1000, device="cuda"))
    torch.sparse.mm(torch.eye(8).to_sparse().cuda(), torch.randn(8, 8, device="cuda"))
    torch.cuda.synchronize()


def training() -> None:
    steps(torch.optim.SGD)
    steps(torch.optim.Adam)


def amp() -> None:
    m, scaler = model(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = m(torch.randn(16, 32, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def streams() -> None:
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


def graphs() -> None:
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


def loader() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(256).float())
    batches = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
    seen = sorted(float(v) for (b,) in batches for v in b.to("cuda", non_blocking=True).cpu())
    assert seen == [float(i) for i in range(256)]


def memory() -> None:
    free, total = torch.cuda.mem_get_info()
    blocks = [torch.empty(1 << 20, device="cuda") for _ in range(20)]
    assert torch.cuda.memory_allocated() >= 20 << 22
    del blocks
    torch.cuda.empty_cache()
    assert 0 < free <= total
    try:
        torch.empty(1 << 50, device="cuda", dtype=torch.uint8)
        raise AssertionError("a petabyte fits")
    except torch.cuda.OutOfMemoryError:
        pass


def compiled() -> None:
    f = torch.compile(lambda a, b: (a * b).sin() + a)
    f(torch.randn(64, device="cuda"), torch.randn(64, device="cuda"))
    m = torch.compile(model(), mode="reduce-overhead")
    for _ in range(3):
        m(torch.randn(16, 32, device="cuda"))
    torch.cuda.synchronize()


PARTS = {f.__name__: f for f in (operations, training, amp, streams, graphs, loader, memory, compiled)}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
    print("done")
