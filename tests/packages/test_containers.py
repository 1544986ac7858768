"""The examples of the guide for containers, built and run by Podman without a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodes.launcher_control import Partition
from tests.packages.guide import assert_ran_on_quarter, example, examples
from tests.packages.machines import RELEASES, Release, release_named, root_of
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode
from tests.suites import torch
from tests.system.conftest import DEMO, Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("podman") is None, reason="needs podman"),
]
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""
CONTAINERS = """\
[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "{runtime}"
"""
"""The appliance of the test is an address of this machine. The limits need no privilege."""
Shell = Callable[[str], str]


@pytest.fixture(scope="module")
def shell(stack: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Run commands of a user of the appliance, with images in a folder of the test."""
    folder = tmp_path_factory.mktemp("containers")
    runtime = "runc" if shutil.which("runc") else "crun"  # crun refuses hybrid control groups
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    (folder / "containers.conf").write_text(CONTAINERS.format(runtime=runtime))
    context = folder / ".config" / "busbar" / "context.json"
    context.parent.mkdir(parents=True)
    shutil.copy(stack.context, context)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
    }

    def run(script: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", script],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout + done.stderr

    yield run
    run("podman system reset --force")


def build(shell: Shell, pool: Pool, release: Release) -> str:
    """Build the image of the guide on a base made by debootstrap. Return its name."""
    base, built = f"localhost/base:{release.name}", f"localhost/with-client:{release.name}"
    shell(f"mkdir base && tar -C {root_of(release)} -cf base/root.tar .")
    shell("printf 'FROM scratch\\nADD root.tar /\\n' >base/Containerfile")
    shell(f"podman build -t {base} base && rm -r base")
    lines = example("Container", "dockerfile")
    assert lines.startswith("FROM debian:13\n")
    shell(f"cat >Containerfile <<'END'\n{lines}COPY program /program\nEND")
    shell(f"curl -fsSk {pool.stack.url}/install/client.sh -o client.sh; cp {DEMO} program")
    shell(f"podman build -t {built} --from {base} .")
    return built


@pytest.fixture(scope="module")
def image(shell: Shell, stack: Pool) -> str:
    return build(shell, stack, release_named("trixie"))


def test_program_in_container_runs_on_a_gpu(shell: Shell, image: str, stack: Pool) -> None:
    (command,) = (text for text in examples("Container", "") if "docker run" in text)
    for name, real in {
        "docker": "podman",
        "IMAGE": image,
        "python3 train.py": "/program memory",
    }.items():
        assert name in command
        command = command.replace(name, real)
    assert_ran_on_quarter(stack, shell(command))


def test_program_in_container_without_busbar_run_gets_no_gpu(shell: Shell, image: str) -> None:
    output = shell(f"! podman run --rm {image} /program memory")
    assert "total_bytes" not in output


@pytest.fixture
def null_node() -> Iterator[LocalNode]:
    """A node whose driver passes for NVIDIA's and computes nothing."""
    whole_gpu = Partition(NULL_DRIVER_GPUS[0], torch.MEMORY_BYTES, 100)
    node = LocalNode(NULL_DRIVER, partitions=[whole_gpu])
    yield node
    node.stop()


@pytest.mark.skipif(
    not (torch.FOLDER / "installed").exists(), reason="./test --long torch installs PyTorch"
)
def test_pytorch_in_container_makes_its_calls_on_the_null_driver(
    shell: Shell, stack: Pool, null_node: LocalNode
) -> None:
    """No node of the pool has NVIDIA's driver, so the ticket is not one of `busbar run`."""
    (packages,) = torch.FOLDER.glob("lib/python*/site-packages")
    version = packages.parent.name.removeprefix("python")
    image = build(shell, stack, next(r for r in RELEASES if r.python == version))
    library = shell(f"podman run --rm {image} dpkg -L busbar-client | grep /libcuda.so.1").strip()
    mounts = {packages: "/torch", torch.PROGRAM: "/p.py", null_node.ticket_file(): "/ticket"}
    variables = {
        "PYTHONPATH": "/torch",
        "BUSBAR_TICKET_FILE": "/ticket",
        "LD_LIBRARY_PATH": str(Path(library).parent),
    }
    options = [f"-v {here}:{there}:ro" for here, there in mounts.items()]
    options += [f"-e {name}={value}" for name, value in variables.items()]
    output = shell(f"podman run --rm {' '.join(options)} {image} python3 /p.py operations")
    assert '"digests"' in output
    assert "busbar:" not in output
