// @vitest-environment jsdom
import { cleanup, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { cache } from "../api/cache";
import { type Allocation, api } from "../api/client";
import { ToastRegion } from "../ui/toasts";
import { show } from "./answeringServer";
import { resizeAllocation, withdrawResize } from "./resize";

const TRAIN = { kind: "allocations", id: "9", name: "train" } as const;
const NEW = { id: "9", percent: 30, memory_bytes: 0, compute_mode: "shared", version: 4 };
let row: { version: number; [field: string]: unknown } = { ...NEW };
const sent: object[] = [];
const answer = () => ({
  data: { ...row },
  response: new Response(null, { headers: { ETag: `"${row.version}"` } }),
});

beforeEach(() => {
  row = { ...NEW };
  sent.length = 0;
  vi.spyOn(api, "GET").mockImplementation((async () => answer()) as never);
  vi.spyOn(api, "PATCH").mockImplementation((async (_: string, { body }: { body: object }) => {
    sent.push(body);
    return answer();
  }) as never);
  show(<ToastRegion />);
});
afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

const modes = () => screen.findByRole<HTMLSelectElement>("combobox", { name: "Compute mode" });
const choose = async (mode: string) => fireEvent.change(await modes(), { target: { value: mode } });
const share = () => screen.queryByRole("spinbutton", { name: "Share in percent" });
const type = (percent: string) =>
  fireEvent.change(share() as HTMLElement, { target: { value: percent } });
const command = () => screen.getByRole<HTMLInputElement>("textbox", { name: "Command" }).value;
async function resize() {
  fireEvent.click(screen.getByRole("button", { name: "Resize" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
}

test("a changed mode alone is sent and shown as a command", async () => {
  await resizeAllocation(TRAIN);
  expect((await modes()).value).toBe("shared");
  await choose("capped");
  expect(command()).toContain(`--json '{"compute_mode":"capped"}'`);
  await resize();
  expect(sent).toEqual([{ compute_mode: "capped" }]);
});

test("a changed size leaves the mode out, and both are sent together", async () => {
  await resizeAllocation(TRAIN);
  await modes();
  type("40");
  expect(command()).toContain(`--json '{"percent":40}'`);
  await choose("guaranteed");
  await resize();
  expect(sent).toEqual([{ percent: 40, compute_mode: "guaranteed" }]);
});

test("whole GPUs have no size, whatever was typed before", async () => {
  await resizeAllocation(TRAIN);
  await modes();
  type("40");
  await choose("exclusive");
  expect(share()).toBeNull();
  await resize();
  expect(sent).toEqual([{ compute_mode: "exclusive" }]);
});

test("whole GPUs become a share, and no mode is not a choice", async () => {
  row = { ...NEW, percent: 100, compute_mode: "exclusive" };
  await resizeAllocation(TRAIN);
  expect([...(await modes()).options].map((o) => o.value)).not.toContain("");
  expect(share()).toBeNull();
  await choose("shared");
  type("50");
  await resize();
  expect(sent).toEqual([{ compute_mode: "shared", percent: 50 }]);
});

const WAITS = { state: "queued", reason: "Its GPU is full." };
const WAITING = {
  ...NEW,
  percent: 90,
  granted_compute_mode: "shared",
  partitions: [{ gpu_id: "g", compute_percent: 30, memory_bytes: 2 ** 31 }],
  resize: WAITS,
};

test("the form of a resize that waits shows the present size, which withdraws it", async () => {
  row = WAITING;
  await resizeAllocation(TRAIN);
  await modes();
  expect((share() as HTMLInputElement).value).toBe("30");
  expect(screen.getByText(/A resize to 90 % waits/)).toBeTruthy();
  await resize();
  expect(sent).toEqual([{ percent: 30, memory_bytes: 2 ** 31 }]);
});

test("a resize that only waits is not reported as done", async () => {
  await resizeAllocation(TRAIN);
  await modes();
  type("90");
  row = WAITING;
  await resize();
  expect(await screen.findByText("Resize waits: 9")).toBeTruthy();
  expect(screen.getByText(WAITS.reason)).toBeTruthy();
});

test("the withdrawal sends the present size, in the version that is shown", async () => {
  cache.setQueryData(["rows", "gpu"], [{ id: "g", memory_bytes: 7 * 2 ** 30 }]);
  await withdrawResize(WAITING as unknown as Allocation);
  expect(sent).toEqual([{ percent: 30, memory_bytes: 2 ** 31, compute_mode: "shared" }]);
  cache.setQueryData(["rows", "gpu"], [{ id: "g", memory_bytes: 2 ** 31 / 0.3 + 2 ** 20 }]);
  await withdrawResize(WAITING as unknown as Allocation);
  expect(sent[1]).toEqual({ percent: 30, memory_bytes: 0, compute_mode: "shared" });
});
