"""The functional part of `.ci/run`: which failures it runs again, and what it then reports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import wait_for

ROOT = Path(__file__).resolve().parents[2]
TESTS = """#!/usr/bin/env bash
# In place of ./test: fails as often as the plan says, and writes what pytest's cache would hold.
echo "$*" >>calls
read -r status <plan
sed -i 1d plan
[ ! -f prints ] || cat prints
mkdir -p build/pytest-functional/v/cache
[ "$status" = 0 ] || [ ! -f failed ] || cp failed build/pytest-functional/v/cache/lastfailed
exit "$status"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "functional", tmp_path / ".ci" / "functional")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "test").write_text(TESTS)
    (tmp_path / "test").chmod(0o755)
    return tmp_path


def run(checkout: Path, failed: str, *statuses: int) -> tuple[int, str, list[str]]:
    """Run the part on planned statuses of ./test. Return status, output and calls of ./test."""
    if failed:
        (checkout / "failed").write_text(failed)
    (checkout / "plan").write_text("".join(f"{s}\n" for s in statuses))
    done = subprocess.run(
        [checkout / ".ci" / "functional"], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, (checkout / "calls").read_text().splitlines()


def test_passing_tests_run_once(checkout: Path) -> None:
    status, _, calls = run(checkout, "", 0)
    assert (status, len(calls)) == (0, 1)


def test_file_of_an_unstable_test_passes_three_times_and_the_test_is_named(checkout: Path) -> None:
    status, out, calls = run(checkout, '{"tests/a.py::test_b[x y]": true}', 1, 0, 0, 0)
    assert status == 0
    assert "== UNSTABLE, run again: tests/a.py::test_b[x y]" in out
    assert calls[1:] == ["-n 2 -m not exhaustive and not alone tests/a.py"] * 3


@pytest.mark.parametrize("statuses", [(1, 1), (1, 0, 1), (1, 0, 0, 1)])
def test_test_that_fails_again_fails_the_part(checkout: Path, statuses: tuple[int, ...]) -> None:
    assert run(checkout, '{"tests/a.py::test_b": true}', *statuses)[0] == 1


def test_three_failed_tests_are_not_run_again(checkout: Path) -> None:
    failed = '{"a.py::a": true, "a.py::b": true, "a.py::c": true}'
    status, _, calls = run(checkout, failed, 1, 0, 0, 0)
    assert (status, len(calls)) == (1, 1)


@pytest.mark.parametrize("status", [2, 3, 4, 134, 139])
def test_pytest_that_ends_otherwise_than_by_a_failed_test_is_not_run_again(
    checkout: Path, status: int
) -> None:
    done, _, calls = run(checkout, '{"a.py::a": true}', status, 0, 0, 0)
    assert (done, len(calls)) == (1, 1)


@pytest.mark.parametrize(
    "printed",
    [
        "INTERNALERROR> KeyError: 'a'",
        "worker 'gw0' crashed while running 'a.py::a'",
        "Fatal Python error: Segmentation fault",
        "Timeout (0:15:00)!",
        "!!! xdist.dsession.Interrupted: stopping after 1 failures !!!",
    ],
)
def test_tests_that_did_not_run_to_their_end_are_not_run_again(
    checkout: Path, printed: str
) -> None:
    (checkout / "prints").write_text(printed + "\n")
    done, out, calls = run(checkout, '{"a.py::a": true}', 1, 0, 0, 0)
    assert (done, len(calls)) == (1, 1)
    assert "did not run to their end" in out


def test_file_that_cannot_be_collected_is_not_run_again(checkout: Path) -> None:
    status, _, calls = run(checkout, '{"tests/a.py": true}', 1, 0, 0, 0)
    assert (status, len(calls)) == (1, 1)


def test_signal_ends_the_tests(checkout: Path) -> None:
    (checkout / "test").write_text("#!/usr/bin/env bash\necho $$ >pid\nexec sleep 1000\n")
    with subprocess.Popen([checkout / ".ci" / "functional"], stdout=subprocess.PIPE) as part:
        wait_for("the tests", lambda: (checkout / "pid").exists(), checkout / "log", 30)
        pid = int((checkout / "pid").read_text())
        part.terminate()
        part.wait(30)
    wait_for("their end", lambda: not Path(f"/proc/{pid}").exists(), checkout / "log", 30)
