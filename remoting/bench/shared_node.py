"""A node whose GPUs are granted to several allocations with a share and a mode each."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deploy.supervisor import BUILD
from nodes.launcher_control import Grant, Grants, Partition
from tests.remoting.node import LocalNode, b64


class SharedNode(LocalNode):
    """A node with one allocation. share() replaces it by several; add_share() adds one."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.shares: list[Grant] = []
        self.is_replaced = False
        super().__init__(*arguments, **settings)

    def grants(self, *, fence: tuple[int, int] | None = None, granted: bool = True) -> Grants:
        whole = super().grants(fence=fence, granted=granted and not self.is_replaced)
        return Grants(
            whole.generation,
            whole.appliance_seconds,
            whole.node_id,
            whole.keys,
            whole.grants + tuple(self.shares),
        )

    def share(
        self,
        percents: Sequence[int],
        memory_bytes: int,
        modes: Sequence[str] = (),
        *,
        gpus: int = 1,
    ) -> list[dict[str, str]]:
        """Replace the allocation by shares; return the environments for their programs.

        Each has its percent of `gpus` GPUs.
        """
        modes = modes or ["shared"] * len(percents)
        self.shares, self.is_replaced = [], True
        for percent, mode in zip(percents, modes, strict=True):
            self._add(percent, memory_bytes, mode, self.gpus[:gpus])
        self.grant()
        return [self._environment_of(grant) for grant in self.shares]

    def _add(self, percent: int, memory_bytes: int, mode: str, gpus: Sequence[uuid.UUID]) -> None:
        partitions = tuple(Partition(gpu, memory_bytes * percent // 100, percent) for gpu in gpus)
        self.shares.append(
            Grant(uuid.uuid4(), self.tenant_id, *self.fence, partitions, compute_mode=mode)
        )

    def resize(self, index: int, percent: int, memory_bytes: int) -> None:
        """Change the size of a share, whose sessions go on. `memory_bytes` is of the whole GPU."""
        changed = Partition(self.gpus[0], memory_bytes * percent // 100, percent)
        self.shares[index] = replace(self.shares[index], partitions=(changed,))
        self.grant()

    def add_share(
        self, percent: int, memory_bytes: int, mode: str = "shared", *, gpu: int = 0
    ) -> dict[str, str]:
        """Grant one more share, of the GPU with this index; return the environment of a program."""
        self._add(percent, memory_bytes, mode, [self.gpus[gpu]])
        self.grant()
        return self._environment_of(self.shares[-1])

    def remove_share(self) -> None:
        """Revoke the share that was added last."""
        self.shares.pop()
        self.grant()

    def _environment_of(self, grant: Grant) -> dict[str, str]:
        whole = self.partitions
        self.partitions = grant.partitions
        ticket = self.ticket(allocation_id=grant.allocation_id)
        self.partitions = whole
        path = self.folder / f"ticket.{grant.allocation_id.hex}"
        lines = (
            f"key {b64(self.client_key.private_bytes_raw())}",
            *self.ticket_lines()[:-1],
            f"ticket {b64(ticket)}",
        )
        path.touch(mode=0o600)
        path.write_text("".join(line + "\n" for line in lines))
        return os.environ | {
            "BUSBAR_TICKET_FILE": str(path),
            "LD_LIBRARY_PATH": str(BUILD / "client"),
        }
