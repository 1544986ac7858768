"""Stored text that tries to act in the console, and web pages that use its cookie."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import COOKIE, Console
from tests.system.conftest import Pool

MARKUP = "<img src=x onerror=window.acted=1>"
TEXTS = (
    MARKUP,
    "{name}{count}{constructor}",
    "javascript:window.acted=1",
    "__proto__",
    "<svg onload=window.acted=1>",
    "');window.acted=1//",
)
FOREIGN = "https://127.0.0.1:1"
"""Another origin of the same site: the browser sends even a SameSite=Strict cookie with requests
from it."""


def create(pool: Pool, kind: str, **content: Any) -> str:
    return str(pool.api.request("POST", kind, content)["id"])


@pytest.fixture
def hostile(pool: Pool) -> Iterator[dict[str, list[str]]]:
    """Objects of each kind with names, labels and notes that try to act, by the paths of pages."""
    unique = f"{time.time_ns()}"
    made: dict[str, list[str]] = {}
    for kind in ("projects", "departments", "pools", "groups", "sites"):
        made[kind] = [create(pool, kind, name=f"{text} {unique}") for text in TEXTS]
    made["users"] = [create(pool, "users", username=f"{text} {unique}") for text in TEXTS]
    node = pool.api.items("nodes")[0]
    labels = {text.replace("=", "")[:60]: text for text in TEXTS}  # no key has =
    pool.api.request("PATCH", f"nodes/{node['id']}", {"labels": labels, "notes": MARKUP})
    held = [create(pool, "allocations", name=text, percent=1) for text in TEXTS]
    yield made | {"allocations": held, "nodes": [node["id"]]}
    for allocation in held:
        pool.api.request("DELETE", f"allocations/{allocation}")
    pool.api.request("PATCH", f"nodes/{node['id']}", {"labels": {}, "notes": ""})
    for kind, ids in made.items():
        for each in ids:
            pool.api.request("DELETE", f"{kind}/{each}")


def assert_shown_as_text(page: Page, text: str) -> None:
    expect(page.get_by_text(text, exact=False).first).to_be_attached()
    assert page.evaluate("window.acted") is None
    assert page.locator("img[src=x], svg[onload]").count() == 0


def test_names_and_labels_of_others_are_text_on_every_page(
    console: Console, hostile: dict[str, list[str]]
) -> None:
    page = console.page
    for kind in ("projects", "departments", "pools", "groups", "users", "allocations"):
        console.open(f"/{kind}/{hostile[kind][-1]}")
        for each, text in zip(hostile[kind], TEXTS, strict=True):
            console.navigate(f"/{kind}/{each}")
            expect(page.get_by_role("heading", level=1)).to_contain_text(text)
            assert_shown_as_text(page, text)
    console.open(f"/nodes/{hostile['nodes'][0]}")
    assert_shown_as_text(page, MARKUP)
    tabs = ("users", "groups", "roles", "bindings", "audit", "tokens")
    for path in ("/allocations", "/pools", "/events", "/settings", "/mine", "/fleet"):
        console.navigate(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    for tab in tabs:
        console.navigate(f"/access?tab={tab}")
    assert page.evaluate("window.acted") is None


def test_search_shows_hostile_names_as_text(
    console: Console, hostile: dict[str, list[str]]
) -> None:
    page = console.page
    console.open()
    page.keyboard.press("Control+k")
    for text in TEXTS:
        page.locator("#palette").fill(text)
        expect(page.get_by_role("option").first).to_contain_text(text)
    assert page.evaluate("window.acted") is None


def test_address_of_a_page_does_not_act(console: Console) -> None:
    page = console.page
    requested: list[str] = []
    page.on("request", lambda r: requested.append(r.url))
    for path in (
        f"/access?tab={MARKUP}",
        "/access?tab=__proto__",
        "/nodes/javascript:window.acted=1",
        "/nodes/..%2f..%2fapi%2fdocs",
        f"/api/docs?url={FOREIGN}/schema&configUrl={FOREIGN}/config",
        f"//{FOREIGN[8:]}/",
    ):
        page.goto(console.url + path)
        page.wait_for_load_state("networkidle")
        assert page.url.startswith(console.url), page.url
        assert not [url for url in requested if url.startswith(FOREIGN)], requested
        assert page.evaluate("window.acted") is None
    console.errors.clear()  # such as the status 404 of a page


ATTACK = """
async ([url, node]) => {
  const results = [];
  const paths = ["bulk", `nodes/${node}/cordon`, "tokens", "users", "allocations"];
  for (const path of paths)
    for (const type of ["text/plain", "application/x-www-form-urlencoded"])
      await fetch(`${url}/api/v1/${path}`, {
        method: "POST", mode: "no-cors", credentials: "include",
        headers: { "Content-Type": type },
        body: '{"name": "forged", "username": "forged", "operations": []}',
      }).catch(() => {});
  await fetch(`${url}/api/v1/nodes/${node}/cordon`,
    { method: "POST", mode: "no-cors", credentials: "include" }).catch(() => {});
  for (const [path, method] of [["me", "GET"], ["tokens", "POST"], [`nodes/${node}`, "PATCH"]])
    await fetch(`${url}/api/v1/${path}`, { method, credentials: "include",
      headers: { "Content-Type": "application/json" },
      body: method === "GET" ? undefined : '{"name": "forged", "notes": "forged"}' })
      .then((r) => r.text()).then((t) => results.push(t)).catch(() => results.push("blocked"));
  const socket = new WebSocket(url.replace("https", "wss") + "/api/v1/feed");
  const code = await new Promise((done) => {
    socket.onopen = () => socket.send(JSON.stringify({ type: "hello" }));
    socket.onmessage = (e) => results.push(e.data);
    socket.onclose = (e) => done(e.code);
  });
  const form = document.createElement("form");
  form.method = "post"; form.enctype = "text/plain"; form.target = "frame";
  form.action = `${url}/api/v1/nodes/${node}/cordon`;
  const frame = document.createElement("iframe");
  frame.name = "frame";
  document.body.append(frame, form);
  await new Promise((done) => {
    frame.onload = done;
    form.submit();
  });
  return { results, code };
}
"""


def test_page_of_the_same_site_changes_and_reads_nothing_with_the_cookie(
    console: Console, pool: Pool
) -> None:
    page, node = console.page, pool.api.items("nodes")[0]
    tokens, users = pool.api.items("tokens"), pool.api.items("users")

    def serve(route: Route) -> None:
        route.fulfill(body="<!doctype html><body>attack", content_type="text/html")

    page.route(f"{FOREIGN}/**", serve)
    page.goto(f"{FOREIGN}/attack")
    sent: list[str] = []
    page.on("request", lambda r: sent.append(r.all_headers().get("cookie", "")))
    found = page.evaluate(ATTACK, [console.url, node["id"]])
    assert any(COOKIE in cookie for cookie in sent), "the attack did not have the cookie"
    assert found == {"results": ["blocked"] * 3, "code": 4401}
    assert pool.api.request("GET", f"nodes/{node['id']}")["state"] == node["state"]
    assert pool.api.items("users") == users
    assert {t["id"] for t in pool.api.items("tokens")} == {t["id"] for t in tokens}
    console.errors.clear()


def test_console_is_in_no_frame(console: Console) -> None:
    page = console.page

    def serve(route: Route) -> None:
        frames = f"<iframe src={console.url}/></iframe><iframe src={console.url}/api/docs></iframe>"
        route.fulfill(body=f"<!doctype html><body>{frames}", content_type="text/html")

    page.route(f"{FOREIGN}/**", serve)
    page.goto(f"{FOREIGN}/attack")
    page.wait_for_load_state("networkidle")
    for frame in page.frames[1:]:
        assert frame.locator("#root, #swagger-ui").count() == 0
    console.errors.clear()
