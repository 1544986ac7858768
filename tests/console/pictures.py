"""Pictures of a page in both themes, checked with axe."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from tests.console.conftest import Console

SET_THEME = """dark => {
  document.documentElement.classList.toggle("pf-v6-theme-dark", dark);
  window.dispatchEvent(new Event("busbar-theme"));
  const running = () => document.getAnimations().filter((a) => a instanceof CSSTransition);
  for (let found = running(); found.length; found = running()) found.forEach((a) => a.finish());
}"""
"""As the button in the masthead does, but without its storage. Transitions of colours end at once,
and with them those that they start in other elements."""


def violations_in_both_themes(page: Page, folder: Path, name: str) -> list[str]:
    """Take a picture in both themes, and return what axe finds. It leaves the light theme.

    Themes differ in their colours only: all rules are checked in the light one.
    """
    found = []
    for theme, rules in (("light", ()), ("dark", ("color-contrast",))):
        page.evaluate(SET_THEME, theme == "dark")
        page.screenshot(path=folder / f"{name}-{theme}.png", full_page=True)
        found += [f"{theme}: {v}" for v in Console(page, "", "").violations(*rules)]
    page.evaluate(SET_THEME, False)
    return found


def picture(page: Page, folder: Path, name: str) -> None:
    """Take a picture in both themes, and check the page with axe."""
    assert violations_in_both_themes(page, folder, name) == [], name
