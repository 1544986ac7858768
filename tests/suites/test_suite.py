"""The command that runs other projects' suites, with faults planted in a suite and in its list."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.suites import compatibility, suite, suite_failures, suite_modes
from tests.suites.suite_definitions import SUITES, Suite
from tests.suites.suite_failures import BESIDE
from tests.suites.suite_modes import SOFTWARE
from tests.suites.suite_run import Outcome, Runner, read_outcomes, record_end, running_test

TESTS = """
import ctypes, os, pytest, time

def test_passes(): pass
def test_fails(): assert False, "on purpose"
@pytest.mark.skip(reason="no device")
def test_skips(): pass
@pytest.mark.xfail
def test_fails_as_its_suite_expects(): assert False
def test_crashes(): os.abort()
def test_hangs(): time.sleep(600)
def test_exits(): os._exit(0)
@pytest.fixture
def broken(): raise RuntimeError("set-up")
def test_with_broken_fixture(broken): pass
@pytest.mark.parametrize("value", [1, 2])
def test_parameter(value): assert value == 1
"""
GPU_TEST = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")

def test_driver_starts(): assert cuda.cuInit(0) == 0
def test_two_gpus():
    count = ctypes.c_int()
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value == 2
def test_is_direct():
    assert not open("/proc/self/maps").read().count("/client/libcuda")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "test_states.py").write_text(TESTS)
    (folder / "test_broken_import.py").write_text("import no_such_module\n")
    return folder


PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run_sample(checkout: Path, *names: str) -> dict[str, Outcome]:
    runner = Runner(Path(sys.executable), checkout, (), lambda _: PLAIN, test_seconds=3)
    return runner.run(["test_states.py"], 1, [f"test_states.py::{n}" for n in names])


def states(outcomes: dict[str, Outcome]) -> dict[str, str]:
    return {test.split("::")[1]: o.state for test, o in outcomes.items()}


def test_every_state_is_recorded_and_later_tests_run(checkout: Path) -> None:
    assert states(run_sample(checkout)) == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_fails_as_its_suite_expects": "passed",
        "test_crashes": "crashed",
        "test_hangs": "timed out",
        "test_exits": "crashed",
        "test_with_broken_fixture": "failed",
        "test_parameter[1]": "passed",
        "test_parameter[2]": "failed",
    }


def test_selected_tests_run_alone(checkout: Path) -> None:
    outcomes = run_sample(checkout, "test_passes", "test_parameter")
    assert set(states(outcomes)) == {"test_passes", "test_parameter[1]", "test_parameter[2]"}


def test_file_that_cannot_be_imported_fails(checkout: Path) -> None:
    runner = Runner(Path(sys.executable), checkout, (), lambda _: PLAIN)
    outcomes = runner.run(["test_broken_import.py"], 1)
    assert outcomes["test_broken_import.py"].state == "failed"
    assert "no_such_module" in outcomes["test_broken_import.py"].reason


PASSED, FAILED = Outcome("passed"), Outcome("failed", "why")


@pytest.mark.parametrize(
    ("outcome", "pattern", "problem"),
    [
        (PASSED, "other", []),
        (FAILED, "file::test[1]", []),
        (FAILED, "file::*", []),
        (FAILED, "other", ["failed and is not listed: file::test[1]: why"]),
        (PASSED, "file::test[1]", ["listed, but passed: file::test[1]"]),
        (Outcome("skipped", ""), "file::test[1]", []),
        (Outcome("crashed", "SIGSEGV"), "file::*", ["crashed: file::test[1]: SIGSEGV"]),
        (Outcome("timed out", ""), "file::*", ["timed out: file::test[1]: "]),
    ],
)
def test_difference_from_the_list_is_a_problem(
    outcome: Outcome, pattern: str, problem: list[str]
) -> None:
    listed = [suite_failures.Expected(pattern, "reason")]
    assert suite_failures.problems({"file::test[1]": outcome}, listed) == problem


def test_entry_that_names_no_test_is_unused() -> None:
    listed = [suite_failures.Expected("file::gone", "reason")]
    assert suite_failures.unused({"file::test": PASSED}, listed) == [
        "listed, but no test has this name: file::gone"
    ]


def test_part_of_a_line_is_not_read(tmp_path: Path) -> None:
    record = tmp_path / "outcomes"
    record.write_text('{"test": "t", "outcome": "started", "reason": ""}\n{"test": "t", "ou')
    assert running_test(record) == "t"
    assert record_end("file", record, "crashed", "SIGKILL") == "crashed"
    assert read_outcomes(record) == {"t": Outcome("crashed", "SIGKILL")}


@pytest.fixture
def sample_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Define the suite `sample`, whose third test fails remoted. Return the file of its list."""
    (tmp_path / "test_gpu.py").write_text(GPU_TEST)
    sample = Suite(title="sample", distribution="pytest", files=("test_gpu.py",))
    monkeypatch.setitem(SUITES, "sample", sample)
    monkeypatch.setattr(suite_failures, "FOLDER", tmp_path)
    monkeypatch.setattr(compatibility, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(compatibility, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(sys, "argv", ["suite", "sample", str(tmp_path), "--workers", "1"])
    return tmp_path / "sample.toml"


LIST = '[[failures]]\nreason = "checks the library"\nwhere = "remoted"\ntests = [{}]\n'


def test_unlisted_failure_and_listed_success_fail_the_command(sample_suite: Path) -> None:
    sample_suite.write_text(LIST.format('"test_gpu.py::test_two_gpus"'))
    with pytest.raises(SystemExit) as error:
        suite.main()
    lines = str(error.value).splitlines()
    assert lines[1] == "remoted: listed, but passed: test_gpu.py::test_two_gpus"
    assert lines[0].startswith("remoted: failed and is not listed: test_gpu.py::test_is_direct")
    assert "| remoted | 2 | 0 | 1 | 0 |" in compatibility.PAGE.read_text()


def test_complete_run_as_listed_is_recorded(sample_suite: Path) -> None:
    sample_suite.write_text(LIST.format('"test_gpu.py::test_is_direct"'))
    suite.main()
    rows = [line for line in compatibility.PAGE.read_text().splitlines() if "| sample " in line]
    assert rows == [
        f"| sample | {pytest.__version__} | software GPU | direct | 3 | 0 | 0 | 0 |",
        f"| sample | {pytest.__version__} | software GPU | remoted | 2 | 1 | 0 | 0 |",
        f"| sample | {pytest.__version__} | software GPU | {BESIDE} | 2 | 1 | 0 | 0 |",
        "| sample | | NVIDIA GPU | direct | unproven | | | |",
        "| sample | | NVIDIA GPU | remoted | unproven | | | |",
    ]


def test_ticket_is_renewed_while_a_suite_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_modes, "RENEWAL_SECONDS", 0.1)
    with SOFTWARE["remoted"]() as environment:
        ticket = Path(environment()["BUSBAR_TICKET_FILE"])
        first = ticket.read_bytes()
        wait_for("another ticket", lambda: ticket.read_bytes() != first, ticket)


def test_compatibility_page_is_current() -> None:
    assert compatibility.PAGE.read_text() == compatibility.page(), (
        "docs/compatibility.md is stale. Write it with: python -m tests.suites.compatibility"
    )


@pytest.mark.parametrize("name", SUITES)
def test_every_listed_failure_has_a_reason_and_one_place(name: str) -> None:
    for mode in SOFTWARE:
        listed = suite_failures.read(suite_failures.FOLDER / f"{name}.toml", mode)
        patterns = [e.pattern for e in listed]
        assert all(e.reason for e in listed) and len(patterns) == len(set(patterns))
