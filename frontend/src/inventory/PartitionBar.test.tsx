// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import {
  RouterProvider,
  createMemoryHistory,
  createRootRoute,
  createRouter,
} from "@tanstack/react-router";
import type { Gpu, Partition } from "../api/client";
import type { Me } from "../api/client";
import { AccountContext } from "../model/account";
import { PartitionBar } from "./PartitionBar";
import { tonesOf } from "./capacity";

const GIB = 2 ** 30;
const gpu = { id: "g", node: "n1", index: 0, pool: "default", memory_bytes: 10 * GIB } as Gpu;

async function show(partitions: object[], allocations: object[] = []) {
  const cache = new QueryClient();
  const rows = { partition: partitions, allocation: allocations, session: [] };
  for (const [kind, value] of Object.entries(rows)) cache.setQueryData(["rows", kind], value);
  const me = { username: "ann", privileges: ["allocations.create"] } as unknown as Me;
  const router = createRouter({
    routeTree: createRootRoute({ component: () => <PartitionBar gpu={gpu} /> }),
    history: createMemoryHistory(),
  });
  render(
    <QueryClientProvider client={cache}>
      <AccountContext value={{ me, live: true, lastLive: null }}>
        <RouterProvider router={router} />
      </AccountContext>
    </QueryClientProvider>,
  );
  await screen.findByRole("list");
}
const partition = {
  id: "p",
  allocation_id: "a",
  gpu_id: "g",
  compute_percent: 30,
  memory_bytes: 3 * GIB,
  state: "active",
};

afterEach(cleanup);

test("a partition shows its allocation, owner and share, and the rest is free", async () => {
  await show([partition], [{ id: "a", name: "training", owner: "ann" }]);
  const segment = screen.getByLabelText(/^training 30 %, ann, 3.0 GiB/);
  expect(segment.getAttribute("href")).toBe("/allocations/a");
  expect(screen.getByLabelText(/^70 % free, 7.0 GiB/)).toBeTruthy();
});

test("the memory of a suspended allocation is reserved", async () => {
  await show([{ ...partition, state: "suspended" }], [{ id: "a", name: "training", owner: "ann" }]);
  const segment = screen.getByLabelText(/0 % of it used, suspended: .* stays reserved$/);
  expect(segment.closest("li")?.className).toContain("bb-segment--suspended");
  expect(screen.getByLabelText(/^70 % free, 7.0 GiB/)).toBeTruthy();
});

test("memory that a shrinking allocation still holds is not free", async () => {
  await show(
    [{ ...partition, over_bytes: 2 * GIB }],
    [{ id: "a", name: "training", owner: "ann" }],
  );
  expect(screen.getByLabelText(/^70 % free, 5.0 GiB/)).toBeTruthy();
  expect(screen.getByLabelText("training: 2.0 GiB beyond its size, until its programs free it"));
});

test("a partition of an invisible allocation belongs to another project and opens nothing", async () => {
  await show([partition]);
  expect(screen.getByLabelText(/^another project 30 %/).tagName).toBe("SPAN");
});

test("the free space of a GPU in a pool allocates there", async () => {
  await show([]);
  expect(screen.getByRole("button", { name: "100 % free, 10 GiB: allocate" })).toBeTruthy();
});

test("the partitions of a GPU have distinct colours", () => {
  const many = [..."abcdefgh"].map((id) => ({ id, allocation_id: `al-${id}` }) as Partition);
  expect(new Set(tonesOf(many).values()).size).toBe(8);
});
