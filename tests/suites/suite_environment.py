"""The environment of a suite: its own in build/suites, or that of our tests."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.groups import file_of, requirements
from deploy.supervisor import BUILD, ROOT
from tests.suites.suite_definitions import Suite
from tests.suites.suite_pycuda import Built

FOLDER = ROOT / "build" / "suites"
NO_NVJITLINK = BUILD / "softgpu" / "no-nvjitlink" / "libnvJitLink.so.13"


@dataclass(frozen=True)
class Prepared:
    """The interpreter that runs a suite, the version that it tests, and what it needs."""

    python: Path
    version: str
    built: Built

    @property
    def tests(self) -> Path:
        return self.built.tests

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return `env` with the variables of the suite."""
        libraries = ":".join(filter(None, (env.get("LD_LIBRARY_PATH"), self.built.libraries)))
        return env | self.built.variables | {"LD_LIBRARY_PATH": libraries}


def prepare(suite: Suite, source: Path) -> Prepared:
    """Install what a suite needs unless it is installed."""
    python = install(suite) if suite.group else Path(sys.executable)
    # Our environment has plugins that a suite does not expect.
    plain = Built(source, {} if suite.group else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    built = suite.build(source, python.parents[1]) if suite.build else plain
    return Prepared(python, version(python, suite.distribution), built)


def install(suite: Suite) -> Path:
    """Install the group of a suite except for PyCUDA, which is built. Return the interpreter."""
    folder, lock = FOLDER / suite.group, file_of(suite.group)
    python, mark = folder / "bin" / "python", folder / "installed"
    if not mark.exists() or mark.read_text() != lock.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        wheels = folder / "wheels.txt"
        wheels.write_text(
            "\n".join(r for r in requirements(suite.group) if not r.startswith("pycuda=="))
        )
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        if suite.find_links:
            pip += ["--find-links", suite.find_links]
        subprocess.run([*pip, "--require-hashes", "-r", wheels], check=True)
        mark.write_text(lock.read_text())
    return python


def version(python: Path, distribution: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
