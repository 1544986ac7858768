// @vitest-environment jsdom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { cache, refresh } from "../api/cache";
import { Problem, api } from "../api/client";
import type { Actionable } from "../model/kinds";
import { ToastRegion } from "../ui/toasts";
import { show } from "./answeringServer";
import { perform, specsOf } from "./registry";

const QUOTA = { kind: "quotas", id: "4", name: "default" } as const;
const SITE = { kind: "sites", id: "5", name: "Oslo" } as const;
const NODE = { kind: "nodes", id: "6", name: "n6" } as const;

/** Choose "Edit" of an object. */
async function edit(x: Actionable) {
  const spec = specsOf(x.kind).find((s) => s.label === "action.edit");
  if (spec) await perform(spec, [x]);
}

beforeEach(() => {
  show(<ToastRegion />);
});
afterEach(() => {
  for (const button of screen.queryAllByRole("button", { name: /^Close/ })) fireEvent.click(button);
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("a failure to read the object before an edit is shown", async () => {
  vi.spyOn(api, "GET").mockRejectedValue(new Problem("FORBIDDEN", "You may not list sites.", 403));
  await edit(SITE);
  expect(await screen.findByText("Edit failed: Oslo")).toBeTruthy();
  expect(screen.getByText("You may not list sites.")).toBeTruthy();
  expect(screen.queryByRole("dialog")).toBeNull();
});

test.each([SITE, NODE])("an edit of $name, which no longer exists, opens no form", async (x) => {
  const absent = { error: {}, response: new Response(null, { status: 404 }) };
  vi.spyOn(api, "GET").mockResolvedValue(absent as never);
  await edit(x);
  expect(await screen.findByText(`Edit failed: ${x.name}`)).toBeTruthy();
  expect(screen.getByText("It no longer exists.")).toBeTruthy();
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a quota cannot be saved without a weight", async () => {
  const quota = { id: "4", quota_gpus: 2, limit_gpus: null, borrows: true, weight: 3 };
  const answer = { data: quota, response: new Response(null, { headers: { ETag: '"1"' } }) };
  vi.spyOn(api, "GET").mockResolvedValue(answer as never);
  const change = vi.spyOn(api, "PATCH");
  await edit(QUOTA);
  const weight = await screen.findByLabelText(/^Weight/);
  fireEvent.change(weight, { target: { value: "" } });
  const save = screen.getByRole("button", { name: /^(Save|Edit)$/ });
  expect(save).toHaveProperty("disabled", true);
  fireEvent.click(save);
  expect(change).not.toHaveBeenCalled();
});

test("a change reads the pools again: the user may no longer view some", () => {
  cache.setQueryData(["rows", "pool"], []);
  cache.setQueryData(["rows", "gpu"], []);
  refresh();
  expect(cache.getQueryState(["rows", "pool"])?.isInvalidated).toBe(true);
  expect(cache.getQueryState(["rows", "gpu"])?.isInvalidated).toBe(false);
});
