// @vitest-environment jsdom
import { cleanup, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { show } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { api } from "../api/client";
import { Loaded, Permitted } from "./states";

const REFUSED = { detail: "This needs the privilege allocations.view.", code: "denied" };

/** Answer requests of these lists with a status, and others with empty lists. */
function answer(statuses: Record<string, number>) {
  vi.spyOn(api, "GET").mockImplementation((async (path: string) => {
    const status = statuses[path] ?? 200;
    const content = status < 400 ? { data: { items: [] } } : { error: REFUSED };
    return { ...content, response: new Response(null, { status }) };
  }) as never);
}

function showPage() {
  show(
    <Loaded kinds={["gpu"]} optional={["session"]}>
      <p>GPU 0</p>
      <Permitted kind="session">
        <p>Sessions</p>
      </Permitted>
    </Loaded>,
  );
}

afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("a page leaves out what the user may not view", async () => {
  answer({ "/api/v1/sessions": 403 });
  showPage();
  expect(await screen.findByText("GPU 0")).toBeTruthy();
  expect(screen.queryByText("Sessions")).toBeNull();
});

test("a page shows what the user may view", async () => {
  answer({});
  showPage();
  expect(await screen.findByText("Sessions")).toBeTruthy();
});

test.each([
  ["the object", { "/api/v1/gpus": 403 }],
  ["a part that the user may view", { "/api/v1/sessions": 404 }],
])("a page that lacks %s says why", async (_, statuses) => {
  answer(statuses);
  showPage();
  expect(await screen.findByText(/allocations.view/)).toBeTruthy();
  expect(screen.queryByText("GPU 0")).toBeNull();
});
