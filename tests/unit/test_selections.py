"""The lists of tests that `./test` and `.ci/run` select."""

from __future__ import annotations

import re

import pytest

from deploy.supervisor import ROOT


def paths_of(name: str) -> list[str]:
    return (ROOT / "tests" / name).read_text().splitlines()


@pytest.mark.parametrize("name", ["quick.txt", "postgresql.txt"])
def test_listed_files_and_functions_exist(name: str) -> None:
    for line in paths_of(name):
        path, _, function = re.sub(r"^--\w+=", "", line).partition("::")
        assert (ROOT / path).exists(), line
        if function:
            assert f"def {function.partition('[')[0]}(" in (ROOT / path).read_text(), line
