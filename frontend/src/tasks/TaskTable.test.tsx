// @vitest-environment jsdom
import { cleanup, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { answerActions, show } from "../actions/answeringServer";
import { cache } from "../api/cache";
import type { Task } from "../api/client";
import { TaskTable } from "./TaskTable";

const task = (id: string, kind: string, state: string) =>
  ({ id, kind, state, path: "", progress_percent: 1, created_at: "2026-11-26T10:00:00Z" }) as Task;

afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("the server decides which tasks may be cancelled; an ended one has no button", async () => {
  for (const kind of ["node", "gpu", "pool", "allocation", "session"])
    cache.setQueryData(["rows", kind], []);
  const asked = answerActions(["cancel"], { "tasks/2": { cancel: "Ask its initiator." } });
  show(
    <TaskTable
      tasks={[
        task("1", "allocation.prepare", "running"),
        task("2", "node.enrol_ssh", "running"),
        task("3", "allocation.resize", "succeeded"),
      ]}
    />,
  );
  const isOff = async (name: string) =>
    (await screen.findByRole("button", { name })).getAttribute("aria-disabled") === "true";
  await waitFor(async () => expect(await isOff("Cancel task Add node")).toBe(true));
  expect(await isOff("Cancel task Allocate")).toBe(false);
  expect(screen.getAllByRole("button", { name: /^Cancel/ })).toHaveLength(2);
  expect(asked).toEqual([["tasks/1", "tasks/2"]]);
});
