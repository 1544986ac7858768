// @vitest-environment jsdom
import { cleanup, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { answerActions, show } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { type Allocation, type Gpu, type Partition, api } from "../api/client";
import { ResizeHandle, mostFor, sizeAfter, sizeFor } from "./ResizeHandle";

const GIB = 2 ** 30;
const gpu = { memory_bytes: 10 * GIB } as Gpu;

afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

const SHOWN = { id: "1", name: "a", gpu_count: 1, memory_bytes: 0, percent: 30, version: 7 };
const answer = (data: object, status: number, version: number) =>
  ({
    ...(status < 400 ? { data } : { error: data }),
    response: new Response(null, { status, headers: { ETag: `"${version}"` } }),
  }) as never;

/** Move the edge to 40 % and return the dialog that asks. */
async function move(of: object = {}) {
  answerActions(["resize"]);
  const props = {
    allocation: { ...SHOWN, ...of } as Allocation,
    partition: { id: "p", memory_bytes: 3 * GIB, compute_percent: 30 } as Partition,
    gpu,
    most: 80,
    preview: 40,
    setPreview: () => {},
  };
  show(<ResizeHandle {...props} />);
  fireEvent.keyDown(await screen.findByRole("slider"), { key: "Enter" });
  return within(await screen.findByRole("dialog"));
}

/** Move the edge to 40 % and confirm it. */
async function confirmMove() {
  const dialog = await move();
  fireEvent.click(dialog.getByRole("button", { name: "Resize" }));
  return dialog;
}

test("a moved edge changes the version of the allocation that the bar shows", async () => {
  const send = vi.spyOn(api, "PATCH").mockResolvedValue(answer({ id: "1", version: 8 }, 202, 8));
  await confirmMove();
  await waitFor(() => expect(send).toHaveBeenCalledTimes(1));
  const headers = { "If-Match": '"7"' };
  expect(send.mock.calls[0]?.[1]).toMatchObject({ body: { percent: 40 }, headers });
});

test("a size that others have changed meanwhile is asked for, and sent in their version", async () => {
  cache.setQueryData(["me"], { privileges: ["audit.read"] });
  vi.spyOn(api, "GET").mockImplementation((async (path: string) =>
    path === "/api/v1/audit"
      ? answer({ items: [{ actor: "li", after: { version: 8 } }] }, 200, 0)
      : answer({ ...SHOWN, percent: 20, version: 8 }, 200, 8)) as never);
  const send = vi
    .spyOn(api, "PATCH")
    .mockResolvedValueOnce(answer({ code: "stale", detail: "It changed." }, 412, 8))
    .mockResolvedValue(answer({ id: "1", version: 9 }, 202, 9));
  const dialog = await confirmMove();
  expect(await dialog.findByText(/Changed by li/)).toBeTruthy();
  const resize = dialog.getByRole<HTMLButtonElement>("button", { name: "Resize" });
  fireEvent.click(dialog.getByRole("radio", { name: "Theirs: 20" }));
  expect(resize.disabled).toBe(true);
  fireEvent.click(dialog.getByRole("radio", { name: "Yours: 40" }));
  fireEvent.click(resize);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const headers = { "If-Match": '"8"' };
  expect(send.mock.calls[1]?.[1]).toMatchObject({ body: { percent: 40 }, headers });
});

test("the edge of a whole GPU does not move, and says why", async () => {
  answerActions(["resize"]);
  const allocation = { ...SHOWN, compute_mode: "exclusive" } as Allocation;
  const partition = { id: "p", memory_bytes: 10 * GIB } as Partition;
  const moved = vi.fn();
  const props = { allocation, partition, gpu, most: 100, preview: null, setPreview: moved };
  show(<ResizeHandle {...props} />);
  const edge = await screen.findByRole("slider");
  expect(edge.getAttribute("aria-disabled")).toBe("true");
  fireEvent.keyDown(edge, { key: "ArrowLeft" });
  expect(moved).not.toHaveBeenCalled();
  // The tooltip listens some time after the edge is there, and shows after a delay.
  await waitFor(
    () => {
      fireEvent.mouseEnter(edge);
      expect(screen.getByText(/It has whole GPUs/)).toBeTruthy();
    },
    { interval: 1000 },
  );
});

test("keys move the edge by one and ten percent, between one percent and what is free", () => {
  expect(sizeAfter("ArrowRight", 30, 80)).toBe(31);
  expect(sizeAfter("ArrowLeft", 1, 80)).toBe(1);
  expect(sizeAfter("PageUp", 75, 80)).toBe(80);
  expect(sizeAfter("PageDown", 30, 80)).toBe(20);
  expect(sizeAfter("Home", 30, 80)).toBe(1);
  expect(sizeAfter("End", 30, 80)).toBe(80);
  expect(sizeAfter("a", 30, 80)).toBeNull();
});

test("an allocation that was requested in percent is resized in percent", () => {
  expect(sizeFor({ memory_bytes: 0 } as Allocation, gpu, 45)).toEqual({ percent: "45" });
});

test("an allocation that was requested in bytes keeps its percent of compute", () => {
  const size = sizeFor({ memory_bytes: 2 * GIB } as Allocation, gpu, 33);
  expect(size).toEqual({ memory_bytes: String(Math.floor(3.3 * 1024) / 1024) });
});

test("the dialog of an amount of memory names the memory, and the compute that stays", async () => {
  const dialog = await move({ memory_bytes: 3 * GIB, percent: 25 });
  expect(
    dialog.getByText(/From 3.0 GiB to 4.0 GiB of the memory.*compute stays 25 %/),
  ).toBeTruthy();
  fireEvent.click(dialog.getByRole("button", { name: "Cancel" }));
});

test("the dialog says that it replaces the resize that waits", async () => {
  const granted_size = { percent: 30, memory_bytes: 0, compute_mode: "shared" };
  const resize = { state: "queued", reason: "", granted_size };
  const dialog = await move({ percent: 90, resize });
  expect(dialog.getByText(/A resize to 90 % waits. The new size replaces it/)).toBeTruthy();
  fireEvent.click(dialog.getByRole("button", { name: "Cancel" }));
});

test("an amount of memory grows into the free memory, whatever compute is free", () => {
  const held = { memory_bytes: 2 * GIB, over_bytes: GIB, compute_percent: 30 } as Partition;
  const free = { percent: 10, memory_bytes: 5 * GIB };
  const most = (percent: number, memory_bytes: number) =>
    mostFor({ percent, memory_bytes } as Allocation, held, gpu, free);
  expect([most(30, 2 * GIB), most(0, 2 * GIB), most(30, 0)]).toEqual([80, 40, 40]);
});
