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
interface Sent {
  body: object;
  headers: { "If-Match": string };
}
const sent: object[] = [];
const versions: string[] = [];
const answer = () => ({
  data: { ...row },
  response: new Response(null, { headers: { ETag: `"${row.version}"` } }),
});

beforeEach(() => {
  row = { ...NEW };
  sent.length = 0;
  vi.spyOn(api, "GET").mockImplementation((async () => answer()) as never);
  versions.length = 0;
  vi.spyOn(api, "PATCH").mockImplementation((async (_: string, { body, headers }: Sent) => {
    sent.push(body);
    versions.push(headers["If-Match"]);
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

const WAITS = {
  state: "queued",
  reason: "Its GPU is full.",
  granted_size: { percent: 30, memory_bytes: 0, compute_mode: "shared" },
};
const WAITING = { ...NEW, percent: 90, resize: WAITS };
const BY_MEMORY = { percent: 0, memory_bytes: 2 ** 31, compute_mode: "shared" };
const granted = (size: object) => ({ ...WAITING, resize: { ...WAITS, granted_size: size } });

test("the form of a resize that waits shows the present size, which withdraws it", async () => {
  row = WAITING;
  await resizeAllocation(TRAIN);
  await modes();
  expect((share() as HTMLInputElement).value).toBe("30");
  expect(screen.getByText(/A resize to 90 % waits/)).toBeTruthy();
  await resize();
  expect(sent).toEqual([{ percent: 30 }]);
});

test("the form of an allocation of memory alone shows and sends its memory", async () => {
  row = granted(BY_MEMORY);
  await resizeAllocation(TRAIN);
  await modes();
  expect((share() as HTMLInputElement).value).toBe("0");
  await resize();
  expect(sent).toEqual([{ percent: 0, memory_bytes: 2 ** 31 }]);
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

test("the withdrawal sends the granted size on a page without GPUs", async () => {
  const sizes = [WAITS.granted_size, BY_MEMORY];
  for (const size of sizes) await withdrawResize(granted(size) as unknown as Allocation);
  expect(sent).toEqual(sizes);
  expect(versions).toEqual(['"4"', '"4"']);
});
