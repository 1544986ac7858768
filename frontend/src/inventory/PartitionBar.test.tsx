// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Gpu } from "../api/client";
import { PartitionBar } from "./PartitionBar";

const GIB = 2 ** 30;
const gpu = { id: "g", node: "n1", index: 0, memory_bytes: 10 * GIB } as Gpu;

function show(partitions: object[], allocations: object[] = []) {
  const cache = new QueryClient();
  const rows = { partition: partitions, allocation: allocations, session: [] };
  for (const [kind, value] of Object.entries(rows)) cache.setQueryData(["rows", kind], value);
  render(
    <QueryClientProvider client={cache}>
      <PartitionBar gpu={gpu} />
    </QueryClientProvider>,
  );
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

test("a partition shows its allocation, owner and share, and the rest is free", () => {
  show([partition], [{ id: "a", name: "training", owner: "ann" }]);
  expect(screen.getByLabelText(/^training, ann: 30 %, 3.0 GiB/)).toBeTruthy();
  expect(screen.getByLabelText("70 % free, 7.0 GiB")).toBeTruthy();
});

test("a partition of an invisible allocation belongs to another project", () => {
  show([partition]);
  expect(screen.getByLabelText(/^another project: 30 %/)).toBeTruthy();
});

test("a GPU without partitions is free", () => {
  show([]);
  expect(screen.getByLabelText("100 % free, 10 GiB")).toBeTruthy();
});
