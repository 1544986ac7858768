// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  RouterProvider,
  createMemoryHistory,
  createRootRoute,
  createRouter,
} from "@tanstack/react-router";
import { act, cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { answerActions } from "../actions/answeringServer";
import type { Alarm, Me, Task } from "../api/client";
import { applyChanges } from "../api/feed";
import { AccountContext } from "../model/account";
import { setLanguage } from "../text/text";
import { NoticeBell } from "./NoticeBell";
import { NoticeDrawer } from "./NoticeDrawer";
import { useNotices } from "./notices";

const ME = { id: "7", username: "mei", privileges: [] } as unknown as Me;
const NODE = "0192f0c1-a2b3-7c4d-8e5f-60718293a4b5";

const alarm = (id: string, severity: string, state = "active") =>
  ({
    id,
    name: `Alarm ${id}`,
    severity,
    state,
    object_name: "gpu-01",
    path: `nodes/${NODE}`,
    message: "It is hot.",
    raised_at: "2026-11-26T10:00:00Z",
  }) as Alarm;
const task = (id: string, initiator: string, state = "failed") =>
  ({ id, initiator, state, kind: "node.enrol", path: "", message: "refused" }) as Task;

function Both() {
  const notices = useNotices();
  return (
    <>
      <NoticeBell notices={notices} isOpen toggle={() => {}} />
      <NoticeDrawer notices={notices} close={notices.markSeen} />
    </>
  );
}

async function show(alarms: Alarm[], tasks: Task[]) {
  const cache = new QueryClient();
  const lists = { alarm: alarms, task: tasks, node: [], gpu: [], pool: [] };
  for (const [kind, rows] of Object.entries({ ...lists, allocation: [], session: [] }))
    cache.setQueryData(["rows", kind], rows);
  const router = createRouter({
    routeTree: createRootRoute({ component: Both }),
    history: createMemoryHistory(),
  });
  render(
    <QueryClientProvider client={cache}>
      <AccountContext value={{ me: ME, live: true, lastLive: null }}>
        <RouterProvider router={router as never} />
      </AccountContext>
    </QueryClientProvider>,
  );
  await screen.findByRole("region");
  return cache;
}

/** Wait until the bell has this number. */
const counts = (unread: number) =>
  screen.findByRole("button", { name: `Notifications, ${unread} unread` });
const titles = () => screen.queryAllByRole("heading", { level: 2 }).map((h) => h.textContent);

beforeEach(() => {
  localStorage.clear();
  answerActions(["acknowledge"]);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  setLanguage("en");
});

test("alarms without acknowledgement and own failures count, the most severe first", async () => {
  await show(
    [alarm("1", "info"), alarm("2", "critical", "acknowledged"), alarm("3", "critical")],
    [task("4", "mei"), task("5", "li"), task("6", "mei", "succeeded")],
  );
  await counts(3);
  expect(titles()).toEqual(["Failed: node enrol", "Alarm 3", "Alarm 1"]);
  expect(screen.getAllByRole("link", { name: "gpu-01" })[0]?.getAttribute("href")).toBe(
    `/nodes/${NODE}`,
  );
});

test("an acknowledged alarm leaves the drawer and the count when the feed says so", async () => {
  const cache = await show([alarm("1", "warning"), alarm("2", "warning")], []);
  const row = { ...alarm("1", "warning"), state: "acknowledged" };
  act(() => applyChanges(cache, [{ sequence: 1, kind: "alarm", id: "1", row }]));
  await counts(1);
  expect(titles()).toEqual(["Alarm 2"]);
});

test("failures that did not fit in the drawer stay unread", async () => {
  await show(
    [],
    Array.from({ length: 60 }, (_, i) => task(`${i}`, "mei")),
  );
  await counts(60);
  expect(titles()).toHaveLength(50);
  fireEvent.click(screen.getByRole("button", { name: "Close" }));
  await counts(10);
});

test("a failure that was seen does not come back, and a new one does", async () => {
  const cache = await show([], [task("1", "mei")]);
  fireEvent.click(screen.getByRole("button", { name: "Close" }));
  await counts(0);
  expect(screen.getByText("Nothing to do")).toBeTruthy();
  act(() =>
    applyChanges(cache, [{ sequence: 1, kind: "task", id: "2", row: task("2", "mei") as never }]),
  );
  await counts(1);
  cleanup();
  await show([], [task("1", "mei"), task("2", "mei")]);
  await counts(1);
});

test("who may not acknowledge an alarm sees its button with the reason of the server", async () => {
  const reason = "Your roles do not allow this here.";
  const asked = answerActions(["acknowledge"], { "alarms/1": { acknowledge: reason } });
  await show([alarm("1", "warning"), alarm("2", "info")], []);
  const isOff = (id: string) =>
    screen
      .getByRole("button", { name: `Acknowledge: Alarm ${id}, gpu-01` })
      .getAttribute("aria-disabled") === "true";
  await waitFor(() => expect(isOff("1")).toBe(true));
  expect(isOff("2")).toBe(false);
  expect(asked).toEqual([["alarms/1", "alarms/2"]]);
});

test("the drawer is in Chinese when the console is", async () => {
  setLanguage("zh");
  await show([], []);
  expect(screen.getByRole("button", { name: "通知, 0 条未读" })).toBeTruthy();
  expect(screen.getByText("没有待处理的通知")).toBeTruthy();
});
