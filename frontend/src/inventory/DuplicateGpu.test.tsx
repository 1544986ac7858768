// @vitest-environment jsdom
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import {
  RouterProvider,
  createMemoryHistory,
  createRootRoute,
  createRouter,
} from "@tanstack/react-router";
import type { Gpu } from "../api/client";
import { DuplicateAlert, DuplicateLine } from "./DuplicateGpu";
import { isCapacity } from "./gpuState";

const twin = { id: "g2", duplicate_of: "g1", duplicate_of_node: "gpu-07" } as Gpu;

async function show(gpu: Gpu) {
  const component = () => (
    <>
      <DuplicateAlert gpu={gpu} />
      <DuplicateLine gpu={gpu} />
      <p>end</p>
    </>
  );
  const router = createRouter({
    routeTree: createRootRoute({ component }),
    history: createMemoryHistory(),
  });
  const { container } = render(<RouterProvider router={router} />);
  await screen.findByText("end");
  return container;
}

afterEach(cleanup);

test("the alert links to the GPU of the other node and says what to do", async () => {
  await show(twin);
  expect(screen.getByRole("link").getAttribute("href")).toBe("/gpus/g1");
  expect(screen.getByText(/remove node gpu-07/)).toBeTruthy();
  expect(screen.getByText("held: Node gpu-07 has the same GPU")).toBeTruthy();
});

test("without permission to view the other node there is neither its name nor a link", async () => {
  await show({ ...twin, duplicate_of_node: null });
  expect(screen.queryByRole("link")).toBeNull();
  expect(screen.getByText(/You may not view that node/)).toBeTruthy();
  expect(screen.getByText("held: Another node has the same GPU")).toBeTruthy();
});

test("a GPU counts once, for the node that has the claim", () => {
  expect([twin, { ...twin, duplicate_of: null }].map(isCapacity)).toEqual([false, true]);
});

test("a GPU of one node has neither alert nor line", async () => {
  const container = await show({ ...twin, duplicate_of: null });
  expect(container.textContent).toBe("end");
});
