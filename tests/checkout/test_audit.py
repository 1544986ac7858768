"""The report of `.ci/audit` on known vulnerabilities of dependencies."""

from __future__ import annotations

import importlib.util
import json
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAFE = {"name": "safe", "version": "1.0", "vulns": []}
VULNERABLE = {
    "name": "leaky",
    "version": "2.3",
    "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["2.4"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "unknown", "skip_reason": "Dependency not found and could not be audited"}


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    loader = SourceFileLoader("audit", str(ROOT / ".ci" / "audit"))
    spec = importlib.util.spec_from_loader("audit", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def python_report(audit: ModuleType, *packages: object) -> list[str]:
    output = json.dumps({"dependencies": packages})
    return list(audit.summary(output, audit.python_vulnerabilities))


def test_known_vulnerability_of_a_python_package_is_named(audit: ModuleType) -> None:
    assert python_report(audit, SAFE, VULNERABLE) == [
        "1 KNOWN VULNERABILITIES in 2 packages:",
        "leaky 2.3: PYSEC-2026-1; fixed in 2.4",
    ]


def test_known_vulnerability_of_the_console_is_named(audit: ModuleType) -> None:
    report = {
        "vulnerabilities": {
            "leaky": {"range": "<2", "severity": "high", "via": [{"title": "It leaks"}, "other"]}
        },
        "metadata": {"dependencies": {"total": 7}},
    }
    assert audit.summary(json.dumps(report), audit.console_vulnerabilities) == [
        "1 KNOWN VULNERABILITIES in 7 packages:",
        "leaky <2: high; It leaks; through other",
    ]


def test_report_without_vulnerabilities_counts_the_packages(audit: ModuleType) -> None:
    assert python_report(audit, SAFE) == ["no known vulnerability in 1 packages"]


@pytest.mark.parametrize(
    "output", ["", "no JSON", "{}", '{"error": {"code": 405}}', json.dumps([SKIPPED])]
)
def test_silent_registry_is_no_clean_report(audit: ModuleType, output: str) -> None:
    for read in (audit.python_vulnerabilities, audit.console_vulnerabilities):
        assert audit.summary(output, read) == ["NOT AUDITED: the registry gave no answer"]
    assert python_report(audit, SKIPPED) == ["NOT AUDITED: the registry gave no answer"]
