// @vitest-environment jsdom
import { act, cleanup, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { show } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { api } from "../api/client";
import { openAddNode } from "./AddNodeDialog";

const errors = [
  { pointer: "/port", message: "It is more than 65535." },
  { pointer: "/software_gpus", message: "It is more than 16." },
];

const input = (name: string) => screen.getByLabelText<HTMLInputElement>(name, { exact: false });
const type = (name: string, value: string) => fireEvent.change(input(name), { target: { value } });
const descriptionOf = (element: Element) =>
  document.getElementById(element.getAttribute("aria-describedby") ?? "")?.textContent;

afterEach(() => {
  fireEvent.click(screen.getByRole("button", { name: "Close" }));
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("refused fields of a new node are marked until they are changed", async () => {
  cache.setQueryData(["rows", "task"], []);
  vi.spyOn(api, "POST").mockResolvedValue({
    error: { code: "invalid", errors },
    response: new Response(null, { status: 400 }),
  } as never);
  show(null);
  await waitFor(() => act(() => openAddNode()));
  await screen.findByRole("dialog");
  type("Address", "node7");
  type("SSH port", "70000");
  fireEvent.change(document.getElementById("field-password") as Element, {
    target: { value: "secret" },
  });
  fireEvent.click(screen.getByRole("button", { name: "Connect" }));
  await waitFor(() => expect(descriptionOf(input("SSH port"))).toContain(errors[0]?.message));
  expect(
    screen.getByText(/SSH port: It is more than 65535. Software GPUs: It is more than 16./),
  ).toBeTruthy();
  const count = screen.getByRole("spinbutton", { name: "Software GPUs" });
  expect(count.getAttribute("aria-invalid")).toBe("true");
  type("SSH port", "22");
  expect(input("SSH port").getAttribute("aria-invalid")).toBe("false");
});
