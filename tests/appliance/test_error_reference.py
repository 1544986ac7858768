"""The error reference has a page for each error code, and problems link to it."""

from __future__ import annotations

from appliance.api.error_descriptions import DESCRIPTIONS
from appliance.api.errors import STATUS, Code
from appliance.api.problems import problem
from deploy.reference import PAGES


def test_every_code_has_status_and_description() -> None:
    assert set(DESCRIPTIONS) == set(STATUS) == set(Code)


def test_problem_type_is_the_page_of_its_code() -> None:
    for code in Code:
        url = f"/docs/reference/errors/{code}/"
        assert problem(code, "", None).data["type"] == url
        assert PAGES[f"errors/{code}.md"]().startswith(f"# {code}\n")


def test_page_names_the_operations_that_respond_with_its_code() -> None:
    page = PAGES["errors/in_use.md"]()
    assert "DELETE /api/v1/pools/{pool_id}" in page and "GET /api/v1/pools" not in page
