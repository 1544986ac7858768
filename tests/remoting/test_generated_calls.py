"""Every exported function with valid arguments, and with each argument bad in turn."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, SOFTGPU
from remoting.codegen.tested import RECORD, read
from tests.remoting.calls import forms, program, results
from tests.remoting.calls.record import GENERATED, implemented, unproven
from tests.remoting.calls.recorder import CLIENT, Recorder, read_record
from tests.remoting.node import LocalNode, softgpu_environment

SECONDS = 300


@pytest.fixture(scope="session")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program.build(tmp_path_factory.mktemp("calls"))


def run(calls: Path, env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [calls, *arguments], env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return done.stdout


def direct_environment(folder: Path) -> dict[str, str]:
    return softgpu_environment(folder, devices=1) | {"LD_LIBRARY_PATH": str(SOFTGPU)}


@pytest.fixture(scope="module")
def direct(calls: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(calls, direct_environment(tmp_path_factory.mktemp("gpu")), "check")


@pytest.fixture(scope="module")
def remoted(
    calls: Path, node: LocalNode, recorder: Recorder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Return the output of the remoted calls and the folder with their record."""
    record = tmp_path_factory.mktemp("record")
    env = node.remote_environment() | recorder.environment(CLIENT, record)
    return run(calls, env, "check"), record


@pytest.mark.long
def test_bad_arguments_directly_neither_crash_nor_hang(direct: str) -> None:
    assert results.trouble(direct) == []


def test_bad_arguments_remoted_neither_crash_nor_end_the_session(
    remoted: tuple[str, Path],
) -> None:
    assert results.trouble(remoted[0]) == []
    assert len(results.results(remoted[0])) > 600


def test_calls_have_the_same_code_directly_and_remoted(
    direct: str, remoted: tuple[str, Path]
) -> None:
    assert results.unlisted(direct, remoted[0]) == []


def test_each_value_that_the_headers_declare_is_accepted_unless_it_is_listed(
    remoted: tuple[str, Path],
) -> None:
    names = {name for values in forms.declared().values() for name in values}
    assert results.refused_forms(remoted[0], names) == []
    assert sum(f"={name} " in remoted[0] for name in names) > 700


def test_record_claims_no_call_that_was_not_executed(remoted: tuple[str, Path]) -> None:
    assert unproven(GENERATED, read_record(remoted[1])) == []


def test_every_implemented_function_is_executed() -> None:
    record = read(ROOT / RECORD)
    assert len(implemented()) > 430
    assert implemented() - set(record) == set()


def test_each_form_of_cu_get_proc_address_behaves_as_the_exported_function(
    calls: Path, node: LocalNode, remoted: tuple[str, Path]
) -> None:
    exported = results.results(remoted[0])
    output = run(calls, node.remote_environment(), "forms")
    assert results.trouble(output) == []
    rows = [line.replace(":", "").split() for line in output.splitlines()]
    assert len(rows) > 500
    wrong = [row for row in rows if row[3] in exported and row[4] != exported[row[3]]["valid"]]
    assert wrong == []


@pytest.mark.parametrize(
    ("fault", "function", "shown"),
    [
        ("BUSBAR_PLANTED_CRASH", "cuEventQuery", "CRASH cuEventQuery hEvent=null"),
        ("BUSBAR_PLANTED_ERROR", "cuMemcpyDtoH_v2", "the session FAILS"),
    ],
)
def test_planted_fault_is_named(
    calls: Path,
    node: LocalNode,
    recorder: Recorder,
    tmp_path: Path,
    fault: str,
    function: str,
    shown: str,
) -> None:
    env = node.remote_environment() | recorder.environment(CLIENT, tmp_path) | {fault: function}
    assert shown in run(calls, env, "check", "cuEventQuery")


def test_planted_success_is_a_difference(
    calls: Path, node: LocalNode, recorder: Recorder, tmp_path: Path
) -> None:
    env = node.remote_environment() | recorder.environment(CLIENT, tmp_path)
    env |= {"BUSBAR_PLANTED_SUCCESS": "cuEventQuery"}
    direct = run(calls, direct_environment(tmp_path), "check", "cuEventQuery")
    found = results.differences(direct, run(calls, env, "check", "cuEventQuery"))
    assert ("cuEventQuery", "hEvent=freed") in found


def test_other_code_of_a_failed_call_is_a_difference() -> None:
    direct = "cuEventQuery: valid 0, hEvent=null 400"
    remoted = "cuEventQuery: valid 0, hEvent=null 1"
    found = {("cuEventQuery", "hEvent=null"): "400 directly, 1 remoted"}
    assert results.differences(direct, remoted) == found
    assert "cuEventQuery hEvent=null: 400 directly, 1 remoted" in results.unlisted(direct, remoted)


def test_recorder_shows_calls_that_fail(
    calls: Path, node: LocalNode, recorder: Recorder, tmp_path: Path
) -> None:
    env = node.remote_environment() | recorder.environment(CLIENT, tmp_path)
    env |= {"BUSBAR_RECORD_SHOWS_FAILURES": "1"}
    done = subprocess.run(
        [calls, "check", "cuEventQuery"], env=env, capture_output=True, text=True, check=True
    )
    assert "cuEventQuery -> 400\n" in done.stderr and "cuEventQuery -> 0" not in done.stderr


def test_random_arguments_neither_crash_nor_end_the_session(calls: Path, node: LocalNode) -> None:
    assert results.trouble(run(calls, node.remote_environment(), "fuzz", "1", "10000")) == []
