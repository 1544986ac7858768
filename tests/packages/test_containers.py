"""The examples of the guide for containers, built and run by Podman without a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.packages.guide import assert_ran_on_quarter, example, examples
from tests.packages.machines import release_named, root_of
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
IMAGE = "localhost/with-client"
BASE = "localhost/debian:13"
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


@pytest.fixture(scope="module")
def image(shell: Shell, stack: Pool) -> str:
    """The image of the guide and a program. Its base is a root file system made by debootstrap."""
    root = root_of(release_named("trixie"))
    shell(f"mkdir base && tar -C {root} -cf base/root.tar .")
    shell("printf 'FROM scratch\\nADD root.tar /\\n' >base/Containerfile")
    shell(f"podman build -t {BASE} base && rm base/root.tar")
    lines = example("Container", "dockerfile")
    assert lines.startswith("FROM debian:13\n")
    shell(f"cat >Containerfile <<'END'\n{lines}COPY program /program\nEND")
    shell(f"curl -fsSk {stack.stack.url}/install/client.sh -o client.sh; cp {DEMO} program")
    shell(f"podman build -t {IMAGE} --from {BASE} .")
    return IMAGE


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
