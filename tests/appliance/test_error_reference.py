"""The error reference covers every error code, and problems link to it."""

from __future__ import annotations

from appliance.api.error_descriptions import DESCRIPTIONS
from appliance.api.errors import STATUS, Code
from appliance.api.problems import problem
from deploy.reference import error_page


def test_every_code_has_status_and_description() -> None:
    assert set(DESCRIPTIONS) == set(STATUS) == set(Code)


def test_problem_type_is_anchor_of_error_reference() -> None:
    page = error_page()
    for code in Code:
        assert problem(code, "", None).data["type"] == f"/docs/reference/errors/#{code}"
        assert f"{{ #{code} }}" in page
