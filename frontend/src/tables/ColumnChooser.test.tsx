// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { stubResizeObserver } from "../actions/answeringServer";
import type { Me } from "../api/client";
import { AccountContext } from "../model/account";
import { setLanguage } from "../text/text";
import { type Column, DataTable } from "./DataTable";

interface Row {
  id: string;
  name: string;
  driver: string;
  agent: string;
}

const COLUMNS: Column<Row>[] = [
  { id: "driver", label: "node.driver", value: (r) => r.driver },
  { id: "name", isIdentity: true, label: "field.name", value: (r) => r.name },
  { id: "agent", label: "node.agent", value: (r) => r.agent },
];
const ROWS = [
  { id: "1", name: "gpu-01", driver: "580", agent: "2.0" },
  { id: "2", name: "gpu-02", driver: "570", agent: "1.0" },
];
const KEY = "busbar.columns.v1.mei.nodes";

function show(user = "mei", tables = ["nodes"]) {
  const me = { id: user } as Me;
  render(
    <AccountContext value={{ me, live: true, lastLive: null }}>
      {tables.map((table, i) => (
        <DataTable
          key={`${table}-${String(i)}`}
          table={table}
          label={`Table ${i}`}
          rows={ROWS}
          columns={COLUMNS}
        />
      ))}
    </AccountContext>,
  );
}

const heads = (i = 0) =>
  [...(screen.getAllByRole("grid")[i]?.querySelectorAll("th") ?? [])].map((h) => h.textContent);
const open = () => fireEvent.click(screen.getByRole("button", { name: /^Columns.*: Table 0$/ }));
const box = (name: string) => screen.findByRole<HTMLInputElement>("checkbox", { name });
const names = () =>
  screen
    .getAllByRole("row")
    .slice(1)
    .map((r) => r.querySelector('[data-label="Name"]')?.textContent);

beforeEach(() => {
  localStorage.clear();
  stubResizeObserver();
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  setLanguage("en");
});

test("a column that is unchecked is hidden, and the browser remembers it", async () => {
  show();
  open();
  fireEvent.click(await box("Agent"));
  expect(heads()).toEqual(["Driver", "Name"]);
  expect(screen.getByRole("button", { name: "Columns, 2 of 3: Table 0" })).toBeTruthy();
  expect(localStorage.getItem(KEY)).toBe('["agent"]');
  cleanup();
  show();
  expect(heads()).toEqual(["Driver", "Name"]);
});

test("the identifying column cannot be hidden", async () => {
  localStorage.setItem(KEY, '["name"]');
  show();
  expect(heads()).toEqual(["Driver", "Name", "Agent"]);
  open();
  const name = await box("Name, always shown");
  expect(name.checked && name.disabled).toBe(true);
});

test("the default columns come back, and nothing stays stored", async () => {
  localStorage.setItem(KEY, '["agent","driver"]');
  show();
  expect(heads()).toEqual(["Name"]);
  open();
  fireEvent.click(await screen.findByRole("button", { name: "Default columns" }));
  expect(heads()).toEqual(["Driver", "Name", "Agent"]);
  expect(localStorage.getItem(KEY)).toBeNull();
});

test.each(['["gone"]', "{", '{"agent":true}', "null", "[1]"])(
  "unknown columns and damaged choices are ignored: %s",
  (stored) => {
    localStorage.setItem(KEY, stored);
    show();
    expect(heads()).toEqual(["Driver", "Name", "Agent"]);
  },
);

test("a choice belongs to its user and its table; tables of one name share it", async () => {
  show("mei", ["nodes", "nodes", "gpus"]);
  open();
  fireEvent.click(await box("Agent"));
  expect([heads(0), heads(1)]).toEqual([
    ["Driver", "Name"],
    ["Driver", "Name"],
  ]);
  expect(heads(2)).toEqual(["Driver", "Name", "Agent"]);
  cleanup();
  show("li");
  expect(heads()).toEqual(["Driver", "Name", "Agent"]);
});

test("a hidden column neither sorts nor filters", async () => {
  show();
  fireEvent.click(screen.getByRole("button", { name: "Driver" }));
  expect(names()).toEqual(["gpu-02", "gpu-01"]);
  open();
  fireEvent.click(await box("Driver"));
  expect(names()).toEqual(["gpu-01", "gpu-02"]);
  fireEvent.change(screen.getByRole("textbox"), { target: { value: "570" } });
  expect(screen.getByText("No match")).toBeTruthy();
});

test("the menu opens in the page element, not in the table", async () => {
  const page = document.createElement("main");
  document.body.append(page);
  show();
  open();
  expect(page.contains(await screen.findByRole("dialog", { name: "Columns: Table 0" }))).toBe(true);
  fireEvent.keyDown(document, { key: "Escape" });
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  cleanup();
  page.remove();
});

test("the menu is in Chinese when the console is", async () => {
  setLanguage("zh");
  show();
  fireEvent.click(screen.getByRole("button", { name: "列:Table 0" }));
  expect(await screen.findByRole("button", { name: "默认列" })).toBeTruthy();
  expect(screen.getByRole("checkbox", { name: "名称(始终显示)" })).toBeTruthy();
});
