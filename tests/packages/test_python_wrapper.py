"""`busbar-python` and the kernel of Jupyter, installed from the wheel."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from remoting.cli.interpreter import needs_gpu
from tests.packages.conftest import Installed
from tests.system.conftest import Pool

PROGRAM = """\
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(json.dumps({"total_bytes": total.value, "arguments": sys.argv[1:]}))
"""
KERNEL = """\
if __name__ == "__main__":
    import pathlib, sys
    connection = json_of(sys.argv)
    exec(pathlib.Path(__file__).with_name("program.py").read_text())
    print(connection["key"])
"""
METADATA = {"debugger": True, "supported_encryption": ["curve"]}
"""Of ipykernel 7.4."""


def run(
    command: list[str], pool: Pool, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    environment |= {"BUSBAR_CONTEXT": str(pool.context)} | variables
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def share_of(pool: Pool, percent: int) -> int:
    whole: int = pool.api.items("gpus")[0]["memory_bytes"]
    return whole * percent // 100 // (2 << 20) * (2 << 20)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("train.py", True),
        ("train.py -c x", True),
        ("-u train.py", True),
        ("-X dev -W error train.py", True),
        ("-Xdev -m train", True),
        ("-mtrain", True),
        ("-m debugpy --listen 5678 train.py", True),
        ("-", True),
        ("-i", True),
        ("", True),
        ("--check-hash-based-pycs always train.py", True),
        ("-c print(1)", False),
        ("-uc print(1)", False),
        ("-X dev -c print(1)", False),
        ("-V", False),
        ("--version", False),
        ("-I /ide/interpreterInfo.py", False),
        ("-m pip list", False),
        ("-mpip list", False),
        ("-Bm venv folder", False),
        ("-m debugpy.adapter", False),
        ("/ide/libs/debugpy/adapter", False),
        ("/ide/libs/debugpy/launcher 1234 -- train.py", False),
        ("/ide/libs/debugpy --connect 127.0.0.1:1234 train.py", True),
        ("adapter", True),
    ],
)
def test_needs_gpu(line: str, wanted: bool) -> None:
    assert needs_gpu(line.split()) is wanted


def test_script_runs_on_requested_share(installed: Installed, pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [installed.path("busbar-python"), "program.py", "-p", "50", "--help"]
    done = run(command, pool, tmp_path, BUSBAR_PYTHON_REQUEST="-p 20 --timeout 300s")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {"total_bytes": share_of(pool, 20), "arguments": ["-p", "50", "--help"]}


def test_question_about_interpreter_needs_no_appliance(
    installed: Installed, pool: Pool, tmp_path: Path
) -> None:
    command = [installed.path("busbar-python"), "-c", "import sys; print(sys.prefix)"]
    nowhere = str(tmp_path / "none.json")
    variables = {"BUSBAR_CONTEXT": nowhere, "VIRTUAL_ENV": str(installed.folder)}
    done = run(command, pool, tmp_path, **variables)
    assert (done.returncode, done.stdout.strip()) == (0, str(installed.folder)), done.stderr


def test_inside_of_busbar_run_it_is_python(
    installed: Installed, pool: Pool, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    line = ["run", "-p", "30", "--timeout", "300s", "--", installed.path("busbar-python")]
    done = run([installed.path("busbar"), *line, "program.py"], pool, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total_bytes"] == share_of(pool, 30)


def test_wrapper_that_is_its_own_python_is_refused(
    installed: Installed, pool: Pool, tmp_path: Path
) -> None:
    wrapper = installed.path("busbar-python")
    done = run([wrapper, "-V"], pool, tmp_path, BUSBAR_PYTHON=wrapper)
    assert done.returncode == 1
    assert "is busbar-python itself" in done.stderr


@pytest.fixture
def jupyter(installed: Installed, tmp_path: Path) -> dict[str, str]:
    """Variables of a user of Jupyter, whose ipykernel prints what it gets and its GPU memory."""
    (tmp_path / "program.py").write_text(PROGRAM)
    reader = (
        'import json\n\ndef json_of(argv):\n    return json.load(open(argv[argv.index("-f") + 1]))'
    )
    (tmp_path / "ipykernel_launcher.py").write_text(f"{reader}\n\n\n{KERNEL}")
    (tmp_path / "ipykernel").mkdir()
    (tmp_path / "ipykernel/kernelspec.py").write_text(
        f"def get_kernel_dict():\n    return {{'metadata': {METADATA}}}"
    )
    path = f"{installed.folder}/bin:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path / "data")}


def spec_of(folder: Path, name: str = "busbar") -> dict[str, Any]:
    spec: dict[str, Any] = json.loads((folder / "data/kernels" / name / "kernel.json").read_text())
    return spec


def test_kernel_runs_on_share_with_its_connection_file(
    installed: Installed, pool: Pool, tmp_path: Path, jupyter: dict[str, str]
) -> None:
    install = [installed.path("busbar"), "jupyter", "install-kernel", "-p", "20"]
    for _ in range(2):
        done = run(install, pool, tmp_path, **jupyter)
        assert done.returncode == 0, done.stderr
    spec = spec_of(tmp_path)
    assert spec["language"] == "python" and spec["display_name"] == "Python (GPU --percent 20)"
    assert spec["metadata"].items() >= METADATA.items()
    connection = tmp_path / "connection.json"
    connection.write_text('{"key": "a0436f6c"}')
    argv = [part.replace("{connection_file}", str(connection)) for part in spec["argv"]]
    done = run(argv, pool, tmp_path, **(jupyter | spec["env"]))
    assert done.returncode == 0, done.stderr
    memory, key = done.stdout.splitlines()
    assert json.loads(memory)["total_bytes"] == share_of(pool, 20)
    assert key == "a0436f6c"


def test_kernel_of_others_is_not_replaced(
    installed: Installed, pool: Pool, tmp_path: Path, jupyter: dict[str, str]
) -> None:
    other = tmp_path / "data" / "kernels" / "python3"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": [], "metadata": {}}')
    install = [installed.path("busbar"), "jupyter", "install-kernel", "--name", "python3"]
    done = run(install, pool, tmp_path, **jupyter)
    assert done.returncode != 0 and "is another kernel" in done.stderr
    assert spec_of(tmp_path, "python3")["argv"] == []


def test_python_without_ipykernel_is_named(
    installed: Installed, pool: Pool, tmp_path: Path, jupyter: dict[str, str]
) -> None:
    install = [installed.path("busbar"), "jupyter", "install-kernel"]
    done = run(install, pool, tmp_path, **(jupyter | {"PYTHONPATH": ""}))
    assert done.returncode == 1
    assert "has no ipykernel. Install it: " in done.stderr
