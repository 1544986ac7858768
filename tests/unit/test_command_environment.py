"""Credentials of the command from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from remoting.cli.api import ApiError, Context, load_context, save_context


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    for name in ("BUSBAR_TOKEN", "BUSBAR_URL", "BUSBAR_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BUSBAR_CONTEXT", str(tmp_path / "context.json"))
    context = Context("https://stored:8443", "stored", "pem")
    save_context(context)
    return context


def test_environment_comes_before_the_stored_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Context
) -> None:
    assert load_context() == stored
    (tmp_path / "ca.pem").write_text("other pem")
    monkeypatch.setenv("BUSBAR_TOKEN", "bb_1.x")
    monkeypatch.setenv("BUSBAR_URL", "https://other:8443/")
    monkeypatch.setenv("BUSBAR_CA", str(tmp_path / "ca.pem"))
    assert load_context() == Context("https://other:8443", "bb_1.x", "other pem")


@pytest.mark.parametrize(
    ("url", "ca"),
    [("", "ca.pem"), ("http://a", "ca.pem"), ("https://a", ""), ("https://a", "absent.pem")],
)
def test_incomplete_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, ca: str
) -> None:
    (tmp_path / "ca.pem").write_text("pem")
    monkeypatch.setenv("BUSBAR_TOKEN", "bb_1.x")
    monkeypatch.setenv("BUSBAR_URL", url)
    monkeypatch.setenv("BUSBAR_CA", str(tmp_path / ca) if ca else "")
    with pytest.raises(ApiError, match="BUSBAR_"):
        load_context()
