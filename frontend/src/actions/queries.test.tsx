// @vitest-environment jsdom
import { QueryClientProvider } from "@tanstack/react-query";
import { act, cleanup, renderHook } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { cache } from "../api/cache";
import { answerActions } from "./answeringServer";
import { useRowActions } from "./queries";

const wrapper = ({ children }: { children: ReactNode }) => (
  <QueryClientProvider client={cache}>{children}</QueryClientProvider>
);
const showRow = (id: string) =>
  renderHook(() => useRowActions({ kind: "tasks", id, name: id }, true), { wrapper });
const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  cleanup();
  cache.clear();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("rows that appear within 50 ms ask in one request, later ones in the next", async () => {
  const asked = answerActions(["cancel"]);
  const first = showRow("1");
  await pass(40);
  showRow("2");
  await pass(20);
  showRow("3");
  await pass(100);
  expect(asked).toEqual([["tasks/1", "tasks/2"], ["tasks/3"]]);
  expect(first.result.current?.map((a) => a.name)).toEqual(["cancel"]);
});

test("rows whose answers are invalidated within 50 ms ask in one request", async () => {
  const asked = answerActions(["cancel"]);
  for (const id of ["1", "2"]) showRow(id);
  await pass(100);
  for (const id of ["1", "2"]) {
    void cache.invalidateQueries({ queryKey: ["actions", "row", `tasks/${id}`] });
    await pass(30);
  }
  await pass(100);
  expect(asked).toEqual([
    ["tasks/1", "tasks/2"],
    ["tasks/1", "tasks/2"],
  ]);
});
