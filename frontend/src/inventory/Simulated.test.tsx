// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { NodeState } from "./NodeState";
import { SimulatedBanner } from "./Simulated";
import type { Node } from "../api/client";

afterEach(cleanup);

function showBanner(nodes: Partial<Node>[]) {
  const cache = new QueryClient();
  cache.setQueryData(["rows", "node"], nodes);
  render(
    <QueryClientProvider client={cache}>
      <SimulatedBanner />
    </QueryClientProvider>,
  );
}

test("the banner counts the simulated nodes", () => {
  showBanner([{ simulated: true }, { simulated: true }, { simulated: false }]);
  expect(screen.getByText(/^2 simulated nodes/)).toBeTruthy();
});

test("without simulated nodes there is no banner", () => {
  showBanner([{ simulated: false }]);
  expect(screen.queryByText(/simulated/)).toBeNull();
});

test("the state of a simulated node has its label, and of others not", () => {
  const node = { state: "ready", reachable: true, simulated: true } as Node;
  render(<NodeState node={node} />);
  expect(screen.getByText("Simulated")).toBeTruthy();
  cleanup();
  render(<NodeState node={{ ...node, simulated: false }} />);
  expect(screen.queryByText("Simulated")).toBeNull();
});
