"""Levels of the isolation of sessions. A node has a level, and a pool can require one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db import models

HOST_MEMORY = "host_memory"
PROCESS_LAYERS = frozenset({"seccomp", "no_new_privs", "resource_limits", HOST_MEMORY})
NAMESPACE_LAYERS = PROCESS_LAYERS | {"file_system", "network", "processes"}
FULL_LAYERS = NAMESPACE_LAYERS | {"user", "cgroup"}


class IsolationLevel(models.TextChoices):
    """Each level contains the ones before it."""

    ANY = "any"
    """No layer is guaranteed."""
    PROCESS = "process"
    """A session server may make a fixed set of system calls. Kernels cannot address its memory."""
    NAMESPACES = "namespaces"
    """It also has a file system, processes and a network of its own."""
    FULL = "full"
    """It also has a user of its own and limits of memory, threads and processor time."""


LAYERS: dict[IsolationLevel, frozenset[str]] = {
    IsolationLevel.ANY: frozenset(),
    IsolationLevel.PROCESS: PROCESS_LAYERS,
    IsolationLevel.NAMESPACES: NAMESPACE_LAYERS,
    IsolationLevel.FULL: FULL_LAYERS,
}
"""Layers of each level, from the lowest level to the highest."""


def level_of(layers: Collection[str]) -> IsolationLevel:
    """Return the highest level whose layers are all in force."""
    return [level for level, needed in LAYERS.items() if needed <= set(layers)][-1]


def missing_of(layers: Collection[str]) -> list[str]:
    """Return the layers of all levels that are not in force, in order."""
    return sorted(FULL_LAYERS.difference(layers))


def describe(layers: Iterable[str]) -> str:
    """Return the names of layers that are not in force, with what one means that is no measure."""
    meaning = {HOST_MEMORY: f"{HOST_MEMORY} (kernels can address the memory of session servers)"}
    return ", ".join(meaning.get(layer, layer) for layer in sorted(layers))


def satisfies(level: str, required: str) -> bool:
    return LAYERS[IsolationLevel(required)] <= LAYERS[IsolationLevel(level)]
