"""A machine with NVIDIA's files: device files and lists of GPUs, as the spawner sees them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

DEVICES = {"null": "1 3", "zero": "1 5", "full": "1 7", "random": "1 8", "urandom": "1 9"}
"""Major and minor numbers. The GPUs have those of null, so that every access works."""
ATTRIBUTES = ("vendor", "numa_node", "resource", "resource0", "rom", "remove", "reset")


def pci_address(number: int) -> str:
    return f"0000:0{number}:00.0"


def information(gpu: uuid.UUID, minor: int | None) -> str:
    """Return the file that NVIDIA's driver shows for a GPU."""
    lines = ["Model: \t\t NVIDIA H100", "IRQ:   \t\t 35", f"GPU UUID: \t GPU-{gpu}"]
    lines += ["Bus Type: \t PCIe", "GPU Excluded:\t No"]
    return "\n".join(lines if minor is None else [*lines, f"Device Minor: \t {minor}"]) + "\n"


def write_files(folder: Path, minors: Mapping[uuid.UUID, int | None]) -> None:
    """Write what is in /proc/driver and /sys on a machine with these GPUs."""
    links = folder / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    for number, (gpu, minor) in enumerate(minors.items()):
        pci = pci_address(number)
        listed = folder / "proc/driver/nvidia/gpus" / pci
        listed.mkdir(parents=True)
        (listed / "information").write_text(information(gpu, minor))
        device = folder / "sys/devices/pci0000:00" / pci
        device.mkdir(parents=True)
        for name in ATTRIBUTES:
            (device / name).write_text("0x10de\n")
        (links / pci).symlink_to(f"../../../devices/pci0000:00/{pci}")


def nvidia_machine(folder: Path, minors: Mapping[uuid.UUID, int | None]) -> Sequence[str]:
    """Return a command that starts a program of root on a machine with these GPUs."""
    write_files(folder, minors)
    nodes = DEVICES | {f"nvidia{n}": DEVICES["null"] for n in range(len(minors))}
    nodes |= {name: DEVICES["null"] for name in ("nvidiactl", "nvidia-uvm")}
    steps = [f"mount -t tmpfs none {path}" for path in ("/proc/driver", "/dev", "/sys")]
    steps += [f"cp -r {folder}/proc/driver/. /proc/driver", f"cp -r {folder}/sys/. /sys"]
    steps += [f"mknod -m 666 /dev/{name} c {numbers}" for name, numbers in nodes.items()]
    steps += ["mkdir /dev/shm", 'exec "$@"']
    return ["unshare", "--mount", "/bin/sh", "-c", " && ".join(steps), "sh"]
