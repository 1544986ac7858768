"""The environment that `busbar run` sets: on software GPUs, compilers emit PTX."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from remoting.cli.run_command import client_library_folder, environment


def test_compilers_emit_ptx_on_software_gpu(tmp_path: Path) -> None:
    env = environment("ticket", software=True)
    assert env["CUPY_COMPILE_WITH_PTX"] == "1"
    (tmp_path / "kernel.ptx").write_text(".version 8.0\n")
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        out = tmp_path / name
        subprocess.run(
            [
                env[name],
                "-lineinfo",
                "-v",
                "--gpu-name=sm_120a",
                str(tmp_path / "kernel.ptx"),
                "-o",
                str(out),
            ],
            check=True,
        )
        assert out.read_text() == ".version 8.0\n"
    # Without nvJitLink, cuda.core uses the driver's linker.
    assert not hasattr(ctypes.CDLL(env["LD_PRELOAD"]), "nvJitLinkCreate")


def test_nvidia_gpu_needs_no_compiler_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LD_PRELOAD", "TRITON_PTXAS_PATH"):
        monkeypatch.delenv(name, raising=False)
    env = environment("ticket", software=False)
    assert "LD_PRELOAD" not in env
    assert "TRITON_PTXAS_PATH" not in env


def test_user_setting_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/usr/bin/ptxas")
    assert environment("ticket", software=True)["TRITON_PTXAS_PATH"] == "/usr/bin/ptxas"


def test_installation_under_a_path_with_spaces_is_preloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = tmp_path / "a path: with spaces"
    installation.symlink_to(client_library_folder().parent)
    monkeypatch.setenv("BUSBAR_CLIENT_LIBRARY", str(installation / "client"))
    env = environment("ticket", software=True)
    done = subprocess.run(["true"], env=env, capture_output=True, check=True)
    assert done.stderr == b""  # the dynamic linker reports a library that it cannot preload
    assert not hasattr(ctypes.CDLL(env["LD_PRELOAD"]), "nvJitLinkCreate")
