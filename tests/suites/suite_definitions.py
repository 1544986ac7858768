"""Other projects' test suites: which files, which packages, which adaptations."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.suites import suite_pycuda
from tests.suites.suite_run import TEST_SECONDS


@dataclass(frozen=True)
class Suite:
    """`files` are patterns below the tests; `excluded` ones do not run.

    `group` names the packages of the suite's environment, which pip finds also in `find_links`;
    without it, it is that of the tests. `distribution` is the package whose version the results
    name. `fixtures` and `adapters` are pytest plugins in adapters/; the latter adapt the suite to
    the software GPU. The files in `machine_code` need nvJitLink, which emits machine code. `cache`
    is the variable that names the suite's folder of compiled kernels. A test may take
    `test_seconds`.
    """

    title: str
    distribution: str
    files: tuple[str, ...]
    group: str = ""
    find_links: str = ""
    cache: str = ""
    excluded: tuple[str, ...] = ()
    fixtures: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    machine_code: tuple[str, ...] = ()
    test_seconds: float = TEST_SECONDS
    find_source: Callable[[], Path] | None = None
    build: Callable[[Path, Path], suite_pycuda.Built] | None = None

    def default_source(self) -> Path:
        """Return tests that come with a package. Raises SystemExit if there are none."""
        if not self.find_source:
            raise SystemExit(f"Name a checkout of {self.title} after the suite's name.")
        return self.find_source()


def numba_wheel() -> Path:
    """Return the folder above the numba-cuda wheel's package, which includes its tests."""
    package = importlib.util.find_spec("numba_cuda")
    assert package and package.origin
    return Path(package.origin).parents[1]


SUITES = {
    "cuda-python": Suite(
        title="cuda-python (cuda.core, cuda.bindings)",
        distribution="cuda-core",
        group="cuda-python",
        files=("cuda_core/tests/**/test_*.py", "cuda_bindings/tests/**/test_*.py"),
        # Compiled extensions; examples that download data; cuDLA and cuFile need their devices.
        excluded=("*/cython/*", "*/example_tests/*", "*/cudla/*", "*/test_cufile.py"),
        fixtures=("cuda_python",),
        adapters=("cuda_python", "cuda_python_ptx"),
        machine_code=(
            "*nvjitlink*",
            "*nvfatbin*",
            "*/test_linker.py",
            "*/test_program*.py",
            "*/test_optional_*.py",
        ),
    ),
    "numba-cuda": Suite(
        title="numba-cuda",
        distribution="numba-cuda",
        files=("numba_cuda/numba/cuda/tests/**/test_*.py",),
        excluded=("*/cudasim/*", "*/benchmarks/*"),
        fixtures=("numba_cuda_fixture",),
        adapters=("numba_cuda_fixture",),
        arguments=("-c", "/dev/null", "-o", "consider_namespace_packages=true"),
        find_source=numba_wheel,
    ),
    "pycuda": Suite(
        title="PyCUDA",
        distribution="pycuda",
        group="pycuda",
        files=("test_driver.py", "test_gpuarray.py", "test_cumath.py"),
        arguments=("-c", "/dev/null", "-o", "markers=cuda"),
        machine_code=("*",),
        find_source=suite_pycuda.download,
        build=suite_pycuda.build,
    ),
    "triton": Suite(
        title="Triton (language)",
        distribution="triton",
        group="triton",
        find_links="https://download.pytorch.org/whl/cpu/torch/",
        cache="TRITON_CACHE_DIR",
        files=("python/test/unit/language/test_*.py",),
        fixtures=("triton_tensors", "triton_sample"),
        adapters=("triton_tensors", "triton_sample"),
        test_seconds=1800,  # the C compiler takes minutes for the largest kernels
    ),
}
