"""The console's live feed, in Chromium with a real stack."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Console
from tests.system.conftest import Pool

pytestmark = pytest.mark.system

HOLD_MESSAGES = """
  const send = WebSocket.prototype.send;
  const released = new Promise(resolve => { window.releaseMessages = resolve; });
  WebSocket.prototype.send = function (text) { released.then(() => send.call(this, text)); };
"""


def test_change_before_the_feed_is_connected_is_shown(console: Console, pool: Pool) -> None:
    """The lists have been read by then, so only the feed can show it."""
    page, node = console.page, pool.api.items("nodes")[0]
    page.add_init_script(HOLD_MESSAGES)
    page.goto(console.url)
    expect(page.get_by_role("main").get_by_text("ready", exact=True)).to_be_visible()
    pool.api.request("POST", f"nodes/{node['id']}/cordon")
    try:
        page.evaluate("releaseMessages()")
        expect(page.get_by_role("main").get_by_text("cordoned", exact=True)).to_be_visible()
    finally:
        pool.api.request("POST", f"nodes/{node['id']}/uncordon")
    expect(page.get_by_role("main").get_by_text("ready", exact=True)).to_be_visible()
