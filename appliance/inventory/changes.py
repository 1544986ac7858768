"""Tells whoever keeps nodes and GPUs in memory that their rows changed. Inside the transaction, on the thread that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

Listener = Callable[[Iterable[UUID]], None]
_gpus: list[Listener] = []
_nodes: list[Listener] = []


def listen(*, gpus: Listener, nodes: Listener) -> None:
    _gpus.append(gpus)
    _nodes.append(nodes)


def gpus_changed(gpu_ids: Iterable[UUID]) -> None:
    ids = list(gpu_ids)
    for listener in _gpus:
        listener(ids)


def node_changed(node_id: UUID) -> None:
    for listener in _nodes:
        listener([node_id])
