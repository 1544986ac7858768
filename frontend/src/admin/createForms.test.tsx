// @vitest-environment jsdom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { given, show, stubResizeObserver } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { BindingsPane } from "./people";
import { PoolsPane } from "./projects";

const ME = {
  id: "7",
  username: "mei",
  privileges: ["pools.manage", "members.manage"],
};

/** Open the form of a new row, and fill it in by the ids of its fields. */
async function fill(pane: ReactNode, button: string, values: Record<string, string>) {
  show(pane, ME);
  fireEvent.click(await screen.findByRole("button", { name: button }));
  await screen.findByRole("dialog");
  for (const [name, value] of Object.entries(values)) {
    const input = document.getElementById(`field-${name}`) as HTMLElement;
    fireEvent.change(input, { target: { value } });
  }
}
const command = () => screen.getByLabelText<HTMLInputElement>("Command").value;

beforeEach(stubResizeObserver);
afterEach(() => {
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  cleanup();
  cache.clear();
  vi.unstubAllGlobals();
});

test("the command of a new pool has every setting of the form", async () => {
  given("pools", []);
  await fill(<PoolsPane />, "Create pool", {
    name: "big lab",
    projects: "night day",
    fallbacks: "default",
    max_lifetime_seconds: "3600",
    max_idle_seconds: "60",
    max_late_seconds: "30",
    network: "fabric",
    required_isolation: "full",
  });
  fireEvent.click(screen.getByRole("checkbox", { name: "exclusive" }));
  fireEvent.click(screen.getByRole("switch"));
  expect(command()).toBe(
    "busbar pool create 'big lab' --policy exclusive --fallback default --max-lifetime 3600s" +
      " --max-idle 60s --max-late 30s --network fabric --admit-new-gpus" +
      " --required-isolation full --project night --project day",
  );
});

test("the input of a number has the limits of the API", async () => {
  given("pools", []);
  await fill(<PoolsPane />, "Create pool", {});
  expect(document.getElementById("field-max_idle_seconds")?.getAttribute("min")).toBe("0");
});

test("a role can be bound at a pool, and the command says so", async () => {
  given("bindings", []);
  given("roles", [{ id: null, name: "operator", built_in: true, privileges: [] }]);
  given("users", [{ id: "1", username: "petra" }]);
  given("pools", [{ id: "9", name: "lab" }]);
  for (const list of ["groups", "projects", "departments", "sites"] as const) given(list, []);
  await fill(<BindingsPane />, "Grant role", { role: "operator", user: "petra", pool: "lab" });
  expect(command()).toBe("busbar role-binding create operator --user petra --pool lab");
});
