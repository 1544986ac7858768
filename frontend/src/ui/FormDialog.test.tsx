// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { Problem } from "../api/client";
import { FormDialog } from "./FormDialog";
import type { Field } from "./fields";

const FIELDS: Field[] = [
  { name: "name", label: "field.name", type: "text" },
  { name: "is_active", label: "field.active", type: "switch" },
  { name: "scopes", label: "people.scopes", type: "checks", options: ["read", "write"] },
];

/** Open a form, and let the appliance refuse each of its fields. */
async function refuseAll() {
  const errors = FIELDS.map(({ name }) => ({ pointer: `/${name}`, message: `Wrong ${name}.` }));
  const submit = vi.fn().mockRejectedValue(new Problem("invalid", "", 400, { errors }));
  const initial = { name: "seven", is_active: true, scopes: [] };
  render(
    <FormDialog title="New" verb="Save" close={vi.fn()} {...{ fields: FIELDS, initial, submit }} />,
  );
  fireEvent.click(screen.getByRole("button", { name: "Save" }));
  await screen.findByText("Wrong name.");
}

const text = () => screen.getByRole("textbox");
const descriptionOf = (element: HTMLElement) =>
  document.getElementById(element.getAttribute("aria-describedby") ?? "")?.textContent;

afterEach(cleanup);

test("each kind of input is described by what is wrong with it", async () => {
  await refuseAll();
  const onOff = screen.getByRole("switch");
  expect(descriptionOf(text())).toContain("Wrong name.");
  expect(descriptionOf(onOff)).toContain("Wrong is_active.");
  expect(descriptionOf(screen.getByRole("group"))).toContain("Wrong scopes.");
  for (const input of [text(), onOff]) expect(input.getAttribute("aria-invalid")).toBe("true");
});

test("the mark of a field goes away when its value is changed", async () => {
  await refuseAll();
  fireEvent.change(text(), { target: { value: "eight" } });
  expect(screen.queryByText("Wrong name.")).toBeNull();
  expect(text().getAttribute("aria-invalid")).toBe("false");
  expect(screen.getByText("Wrong is_active.")).toBeTruthy();
});
