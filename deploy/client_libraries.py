"""Builder of the client libraries for packages: build/client-libraries.

The sources are those of build/remoting. The compiler is clang as distributed by Zig (`ziglang`),
which links against the symbols of an old glibc and has the C++ runtime as a static library
(ADR 90).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "client-libraries"
CHECKOUT_BUILD = ROOT / "build" / "remoting"
TOOLS = ROOT / "build" / "client-tools"
GLIBC = "2.28"
UNKNOWN_TO_ZIG = "-Wl,--exclude-libs,ALL"
"""An option of GNU ld. The version scripts hide what is not exported without it."""
TARGETS = ("busbar_cuda", "busbar_nvml", "no_nvjitlink")
LIBRARIES = {
    "client/libcuda.so.1": "client/libcuda.so.1",
    "client/libnvidia-ml.so.1": "client/libnvidia-ml.so.1",
    "softgpu/no-nvjitlink/libnvJitLink.so.13": "softgpu/no-nvjitlink/libnvJitLink.so.13",
}
"""Files of the build by their names in a package."""
BUILD_SCRIPT = """
set -eu
ROOT=$1 folder=$2
shift 2
. "$ROOT/deploy/setup.sh"
lock_checkout
install_groups packages
build_remoting "$folder" "$@"
unlock_checkout
"""


def write_compilers() -> Path:
    """Write the commands that run Zig's tools. Return their folder."""
    machine = platform.machine()
    cpu = " -mcpu=x86_64" if machine == "x86_64" else ""
    target = f" -target {machine}-linux-gnu.{GLIBC}{cpu}"
    folder = TOOLS / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, options in {"cc": target, "c++": target, "ar": "", "ranlib": ""}.items():
        text = (
            f"#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR='{TOOLS}/cache' "
            f"ZIG_LOCAL_CACHE_DIR='{TOOLS}/cache'\n"
            "for argument; do\n  shift\n"
            f'  [ "$argument" = {UNKNOWN_TO_ZIG} ] || set -- "$@" "$argument"\ndone\n'
            f"exec '{sys.executable}' -m ziglang {name}{options} \"$@\"\n"
        )
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            file.chmod(0o755)
    return folder


def copy_openssl() -> Path:
    """Copy headers and static libraries of OpenSSL. Return their folder.

    The folders of the system have headers of its own glibc, which the compiler must not see.
    """
    folder = TOOLS / "openssl"
    shutil.rmtree(folder, ignore_errors=True)
    triplet = f"{platform.machine()}-linux-gnu"
    for include in (Path("/usr/include"), Path("/usr/include") / triplet):
        shutil.copytree(include / "openssl", folder / "openssl", dirs_exist_ok=True)
    for name in ("libssl.a", "libcrypto.a"):
        shutil.copy2(Path("/usr/lib") / triplet / name, folder / name)
    return folder


def build() -> dict[str, bytes]:
    """Build the libraries, unless they are up to date. Return them, stripped, by name.

    Raises CalledProcessError; the message is on stderr, the log in build/log.
    """
    compilers, openssl = write_compilers(), copy_openssl()
    tools = {"C_COMPILER": "cc", "CXX_COMPILER": "c++", "AR": "ar", "RANLIB": "ranlib"}
    options = [f"-DCMAKE_{name}={compilers / tool}" for name, tool in tools.items()]
    options += [f"-DOPENSSL_INCLUDE_DIR={openssl}"]
    for variable, library in (("SSL", "libssl.a"), ("CRYPTO", "libcrypto.a")):
        options += [f"-DOWN_{variable}={openssl / library}"]
        options += [f"-DOPENSSL_{variable}_LIBRARY={openssl / library}"]
    subprocess.run(
        ["sh", "-c", BUILD_SCRIPT, "sh", str(ROOT), str(BUILD), *options],
        env=os.environ | {"TARGETS": " ".join(TARGETS)},
        check=True,
    )
    return {name: stripped(BUILD / file) for name, file in LIBRARIES.items()}


def of_checkout() -> dict[str, bytes]:
    """Return the libraries of the checkout by their names in a package, stripped.

    They run on systems like this one only; tests of everything but that need no other build.
    """
    return {name: stripped(CHECKOUT_BUILD / file) for name, file in LIBRARIES.items()}


def stripped(library: Path) -> bytes:
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "--strip-unneeded", "-o", out.name, str(library)], check=True)
        return Path(out.name).read_bytes()
