"""The documentation site at /docs/."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

PAGE = "<html><script>let a = 1</script><script src='/docs/x.js'></script></html>"


@pytest.fixture
def site(tmp_path: Path, settings: Settings) -> Path:
    folder = tmp_path / "site"
    (folder / "guide").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "guide" / "index.html").write_text("guide")
    (tmp_path / "secret").write_text("secret")
    settings.DOCUMENTATION_DIR = folder
    return folder


def test_page_policy_permits_exactly_its_inline_scripts(client: Client, site: Path) -> None:
    response = client.get("/docs/")
    assert b"".join(response) == PAGE.encode()
    digest = base64.b64encode(hashlib.sha256(b"let a = 1").digest()).decode()
    policy = response["Content-Security-Policy"]
    assert f"script-src 'self' 'sha256-{digest}'" in policy
    assert "script-src 'self' 'unsafe-inline'" not in policy


def test_folder_without_slash_is_redirected(client: Client, site: Path) -> None:
    response = client.get("/docs/guide")
    assert (response.status_code, response["Location"]) == (302, "/docs/guide/")
    assert client.get("/docs/guide/").status_code == 200


@pytest.mark.parametrize("path", ["../secret", "%2e%2e/secret", "guide/../../secret", "missing/"])
def test_paths_outside_the_site_are_not_found(client: Client, site: Path, path: str) -> None:
    assert client.get(f"/docs/{path}").status_code == 404


def test_missing_site_names_the_command_that_builds_it(
    client: Client, tmp_path: Path, settings: Settings
) -> None:
    settings.DOCUMENTATION_DIR = tmp_path / "absent"
    response = client.get("/docs/")
    assert response.status_code == 404 and b"make docs" in response.content
