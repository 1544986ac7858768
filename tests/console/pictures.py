"""Pictures of a page in both themes, checked with axe."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from tests.console.conftest import Console

END_OF_TRANSITIONS = """() => Promise.allSettled(
  document.getAnimations().filter((a) => a instanceof CSSTransition).map((a) => a.finished),
)"""


def picture(page: Page, folder: Path, name: str) -> None:
    """Take a picture in both themes, and check the page with axe."""
    for theme in ("light", "dark"):
        page.evaluate(
            "dark => document.documentElement.classList.toggle('pf-v6-theme-dark', dark)",
            theme == "dark",
        )
        page.evaluate(END_OF_TRANSITIONS)
        page.screenshot(path=folder / f"{name}-{theme}.png", full_page=True)
        assert Console(page, "", "").violations() == [], name
