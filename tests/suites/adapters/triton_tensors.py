"""Pytest plugin that gives Triton's tests tensors on the device without PyTorch's CUDA part.

A tensor on the device is a PyTorch tensor on the CPU with a copy of its storage in device memory,
which the CUDA driver API allocates when Triton asks for the tensor's address. A launch of Triton's
copies all such storages to the device, waits for the kernel, and copies them back. So Triton, its
launcher and the driver are real, and PyTorch on the CPU computes what the tests expect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import device_copies
import torch
import torch_cuda
from torch.overrides import TorchFunctionMode
from triton.backends.nvidia.driver import CudaLauncher

CUDA = torch.device("cuda", 0)
PLAIN = torch._C.DisableTorchFunctionSubclass


def is_cuda(device: object) -> bool:
    """Return whether an argument names the device: "cuda", "cuda:0", a torch.device or 0."""
    return str(device).startswith("cuda") or (isinstance(device, int) and device == 0)


class DeviceTensor(torch.Tensor):
    """A tensor that tells and behaves as if its data were on the device."""

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        replaced = METHODS.get(function)
        if replaced:
            return replaced(*args, **(kwargs or {}))
        return super().__torch_function__(function, types, args, kwargs or {})


def on_device(value: Any) -> Any:
    """Return a result as tensors on the device."""
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, DeviceTensor) else value.as_subclass(DeviceTensor)
    return type(value)(map(on_device, value)) if type(value) in (tuple, list) else value


def on_host(tensor: Any, *_: Any, **__: Any) -> Any:
    """Return a copy of a tensor on the CPU."""
    with PLAIN():
        return tensor.as_subclass(torch.Tensor).clone()


def address(tensor: Any) -> int:
    with PLAIN():
        storage, offset = tensor.untyped_storage(), tensor.storage_offset()
        return int(device_copies.address(storage) + offset * tensor.element_size())


def move(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Tensor.to, of a tensor on the device or on the CPU."""
    devices = [a for a in (*args, kwargs.get("device")) if isinstance(a, (str, torch.device))]
    kept = [a for a in args if a not in devices]
    options = {k: v for k, v in kwargs.items() if k != "device"}
    to_host = any(not is_cuda(d) for d in devices)
    with PLAIN():
        plain = tensor.as_subclass(torch.Tensor)
        moved = plain.to(*kept, **options) if kept or options else plain
        changes = bool(devices) and isinstance(tensor, DeviceTensor) == to_host
        moved = moved.clone() if changes and moved is plain else moved
    if to_host or (not devices and not isinstance(tensor, DeviceTensor)):
        return moved
    return tensor if moved is plain and not changes else on_device(moved)


METHODS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.device.__get__: lambda _: CUDA,
    torch.Tensor.is_cuda.__get__: lambda _: True,
    torch.Tensor.is_cpu.__get__: lambda _: False,
    torch.Tensor.get_device: lambda _: 0,
    torch.Tensor.data_ptr: address,
    torch.Tensor.cpu: on_host,
    torch.Tensor.cuda: lambda tensor, *_, **__: tensor,
    torch.Tensor.to: move,
    torch.Tensor.record_stream: lambda *_: None,
}


class DeviceMode(TorchFunctionMode):
    """Makes tensors of PyTorch's functions that are asked for the device."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return move(args[0], CUDA)
        if function is torch.Tensor.to:
            return move(*args, **options)
        if is_cuda(options.get("device")):
            return on_device(function(*args, **options | {"device": "cpu"}))
        return function(*args, **options)


def install() -> None:
    """Replace torch.cuda and Triton's launch, and enter the mode for good."""
    torch_cuda.install()
    launch = CudaLauncher.__call__

    def launch_with_copies(self: CudaLauncher, *args: Any) -> None:
        device_copies.to_device()
        launch(self, *args)
        device_copies.to_host()

    CudaLauncher.__call__ = launch_with_copies
    DeviceMode().__enter__()


install()
