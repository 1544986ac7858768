// @vitest-environment jsdom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { cache } from "../api/cache";
import { api } from "../api/client";
import { ActionMenu } from "./ActionMenu";
import { show } from "./answeringServer";

afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("a menu opens with all its items, and not before the server answered", async () => {
  const object = "groups/1";
  let answer = (_: unknown) => {};
  vi.spyOn(api, "POST").mockReturnValue(new Promise((resolve) => (answer = resolve)) as never);
  show(<ActionMenu targets={[{ kind: "groups", id: "1", name: "night" }]} />);
  const button = await screen.findByRole("button", { name: "Actions of night" });
  fireEvent.click(button);
  await screen.findByRole("progressbar", { name: "Loading" });
  expect(button.getAttribute("aria-expanded")).toBe("false");
  expect(screen.queryByRole("menu")).toBeNull();
  const actions = ["add_member", "rename", "delete"].map((name) => ({ name, allowed: true }));
  answer({ data: { items: [{ object, actions }] }, response: new Response() });
  await screen.findByRole("menuitem", { name: "Delete" });
  expect(screen.getAllByRole("menuitem")).toHaveLength(actions.length);
  expect(button.getAttribute("aria-expanded")).toBe("true");
});
