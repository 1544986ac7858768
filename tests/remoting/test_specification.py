"""The specification of CUDA calls: strict parsing, completeness, current coverage page."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, ROOT, SOFTGPU
from remoting.codegen import headers, spec
from tests.remoting.conftest import cuda_include

SPEC = ROOT / "remoting" / "spec"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0x0001 cuFoo send generated x=bogus", "unknown role"),
        ("0x0001 cuFoo eventually generated", "unknown class"),
        ("0x0001 cuFoo send magic", "unknown body"),
        ("0x0001 cuFoo send hand", "only a generated function"),
        ("- cuFoo send generated", "only a generated function"),
        ("0x0001 cuFoo", "expected number"),
    ],
)
def test_invalid_line_is_rejected(line: str, reason: str) -> None:
    with pytest.raises(spec.SpecError, match=reason):
        spec.parse_line(line, "test:1")


def test_duplicate_number_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("0x0001 cuA send generated\n0x0001 cuB send generated\n")
    with pytest.raises(spec.SpecError, match="taken"):
        spec.read(path)


def test_every_header_function_is_implemented_or_refused() -> None:
    exported = {
        s for s in headers.cuda_prototypes(cuda_include() / "cuda.h") if headers.base_name(s) == s
    }
    calls, refused = (
        spec.read(SPEC / "cuda_driver.spec"),
        spec.read_refused(SPEC / "cuda_driver.refused"),
    )
    spec.check_complete(calls, refused, exported)
    with pytest.raises(spec.SpecError, match="no entry"):
        spec.check_complete(calls, refused, exported | {"cuBrandNew"})
    assert len(exported) > 400


def test_coverage_page_is_current(tmp_path: Path) -> None:
    page = tmp_path / "coverage.md"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "remoting.codegen.remote_calls",
        "--include",
        cuda_include(),
        "--spec",
        SPEC,
        "--output",
        tmp_path,
        "--coverage",
        page,
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    assert page.read_text() == (ROOT / "docs" / "coverage.md").read_text(), (
        "docs/coverage.md is stale. Regenerate it: see CONTRIBUTING.md"
    )


LIBRARIES = pytest.mark.parametrize(
    "library",
    [BUILD / "client" / "libcuda.so.1", SOFTGPU / "libcuda.so.1"],
    ids=["client", "software GPU"],
)


@LIBRARIES
def test_every_error_has_a_name_and_a_text(library: Path) -> None:
    cuda, text = ctypes.CDLL(str(library)), ctypes.c_char_p()
    codes = headers.error_codes((cuda_include() / "cuda.h").read_text())
    assert len(codes) > 100
    for name, code in codes.items():
        assert cuda.cuGetErrorName(code, ctypes.byref(text)) == 0
        assert text.value == name.encode()
        assert cuda.cuGetErrorString(code, ctypes.byref(text)) == 0
        assert text.value
    assert cuda.cuGetErrorName(998, ctypes.byref(text)) == 1
    assert text.value is None


@LIBRARIES
def test_library_exports_exactly_the_header_functions(library: Path) -> None:
    out = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in out.splitlines()}
    assert set(headers.cuda_prototypes(cuda_include() / "cuda.h")) <= names
    assert headers.graphics_functions(cuda_include()) <= names
    assert all(n.startswith(("cu", "softgpu_")) for n in names), sorted(names)[:5]


def test_implemented_functions_are_not_weak_stubs() -> None:
    """A missing hand-written function would resolve to the weak stub without a link error."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", BUILD / "client" / "libcuda.so.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in out.splitlines()}
    weak = [c for c in spec.read(SPEC / "cuda_driver.spec") if kinds[c] == "W"]
    assert weak == []


def test_versions_map_to_documented_symbols() -> None:
    rows = headers.entry_points(
        cuda_include() / "cudaTypedefs.h", set(headers.cuda_prototypes(cuda_include() / "cuda.h"))
    )
    table = {(r.base, r.version, r.per_thread): r.symbol for r in rows}
    assert table["cuMemAlloc", 3020, False] == "cuMemAlloc_v2"
    assert table["cuDeviceGetUuid", 9020, False] == "cuDeviceGetUuid"
    assert table["cuCtxCreate", 3020, False] == "cuCtxCreate_v2"
    assert table["cuEventElapsedTime", 12080, False] == "cuEventElapsedTime_v2"


def test_coverage_page_has_no_function_without_a_test() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text()
    assert "| implemented |" not in page
    assert page.count("| tested |") > 400
