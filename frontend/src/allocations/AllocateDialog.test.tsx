// @vitest-environment jsdom
import { act, cleanup, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { given, show } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { type AllocationRequest, api } from "../api/client";
import { openAllocate } from "./AllocateDialog";

const TOO_MUCH = "It is more than the largest GPU has.";

/** Open the dialog at an appliance that refuses any amount of memory. */
async function open() {
  for (const kind of ["gpu", "pool", "allocation"]) cache.setQueryData(["rows", kind], []);
  given("projects", []);
  const errors = [{ pointer: "/memory_bytes", message: TOO_MUCH }];
  vi.spyOn(api, "POST").mockImplementation((async (
    _: string,
    { body }: { body: AllocationRequest },
  ) =>
    body.memory_bytes
      ? { error: { code: "invalid", errors }, response: new Response(null, { status: 400 }) }
      : { data: { partitions: [], waiting_reason: "" }, response: new Response() }) as never);
  show(null);
  await waitFor(() => act(() => openAllocate()));
  fireEvent.click(await screen.findByRole("button", { name: "More conditions" }));
}

const memory = () => screen.getByRole("spinbutton", { name: "Memory on each GPU, GiB" });
const descriptionOf = (element: HTMLElement) =>
  document.getElementById(element.getAttribute("aria-describedby") ?? "")?.textContent;

afterEach(() => {
  fireEvent.click(screen.getByRole("button", { name: "Close" }));
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("the dry run marks the field that is refused, until its value is right", async () => {
  await open();
  fireEvent.change(memory(), { target: { value: "900" } });
  await waitFor(() => expect(descriptionOf(memory())).toContain(TOO_MUCH));
  expect(screen.getByText(`Memory on each GPU, GiB: ${TOO_MUCH}`)).toBeTruthy();
  fireEvent.change(memory(), { target: { value: "" } });
  await waitFor(() => expect(memory().getAttribute("aria-invalid")).toBe("false"));
});

test("a refused request names the field by its label", async () => {
  await open();
  fireEvent.change(memory(), { target: { value: "900" } });
  await waitFor(() => expect(descriptionOf(memory())).toContain(TOO_MUCH));
  fireEvent.click(screen.getByRole("button", { name: "Allocate" }));
  const named = () => screen.getAllByText(`Memory on each GPU, GiB: ${TOO_MUCH}`);
  await waitFor(() => expect(named()).toHaveLength(2));
  expect(screen.queryByText(/memory_bytes: /)).toBeNull();
});
