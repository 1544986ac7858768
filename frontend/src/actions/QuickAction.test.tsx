// @vitest-environment jsdom
import { cleanup, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { cache } from "../api/cache";
import { api } from "../api/client";
import { answerActions, show } from "./answeringServer";
import { QuickAction } from "./QuickAction";

const task = (id: string) => ({ kind: "tasks", id, name: `Task ${id}` }) as const;
const cancel = (id: string) => (
  <QuickAction key={id} target={task(id)} name="cancel" ariaLabel={`Cancel ${id}`} />
);
const button = (id: string) => screen.findByRole("button", { name: `Cancel ${id}` });
const isOff = (found: HTMLElement) => found.getAttribute("aria-disabled") === "true";

afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

test("buttons that appear together ask in one request", async () => {
  const asked = answerActions(["cancel"], { "tasks/2": { cancel: "It has ended." } });
  show(["1", "2", "3"].map(cancel));
  await waitFor(async () => expect(isOff(await button("2"))).toBe(true));
  expect(asked).toEqual([["tasks/1", "tasks/2", "tasks/3"]]);
  expect(isOff(await button("1"))).toBe(false);
});

test("a refused button takes the focus, shows its reason then, and does nothing", async () => {
  const asked = answerActions(["cancel"], { "tasks/1": { cancel: "It has ended." } });
  show(cancel("1"));
  await waitFor(async () => expect(isOff(await button("1"))).toBe(true));
  const refused = await button("1");
  refused.focus();
  expect(document.activeElement).toBe(refused);
  expect((await screen.findByRole("tooltip")).textContent).toBe("It has ended.");
  fireEvent.click(refused);
  expect(asked).toHaveLength(1);
  expect(api.POST).toHaveBeenCalledTimes(1);
});

test("a button keeps the focus when the server refuses its action", async () => {
  let answer = (_: unknown) => {};
  vi.spyOn(api, "POST").mockReturnValue(
    new Promise((resolve) => {
      answer = resolve;
    }) as never,
  );
  show(cancel("1"));
  const early = await button("1");
  early.focus();
  expect(isOff(early)).toBe(false);
  const actions = [{ name: "cancel", allowed: false, reason: "It has ended." }];
  answer({ data: { items: [{ object: "tasks/1", actions }] }, response: new Response() });
  await waitFor(() => expect(isOff(early)).toBe(true));
  expect(document.activeElement).toBe(early);
});

test("a button with the actions of its detail asks nothing", async () => {
  const asked = answerActions(["cancel"]);
  const answers = [{ name: "cancel", allowed: false, reason: "It has ended." }];
  show(<QuickAction target={task("1")} name="cancel" ariaLabel="Cancel 1" answers={answers} />);
  expect(isOff(await button("1"))).toBe(true);
  expect(asked).toEqual([]);
});

test("an action that the server does not know of the object has no button", async () => {
  answerActions([]);
  show(cancel("1"));
  await waitFor(() => expect(screen.queryByRole("button")).toBeNull());
});

test("a task is cancelled after a question that says what is lost", async () => {
  answerActions(["cancel"]);
  show(cancel("1"));
  await waitFor(() => expect(api.POST).toHaveBeenCalledTimes(1));
  fireEvent.click(await button("1"));
  const dialog = within(await screen.findByRole("dialog"));
  expect(dialog.getByText(/Cancel task Task 1/)).toBeTruthy();
  expect(dialog.getByText(/leaves the queue and loses its place/)).toBeTruthy();
  expect(api.POST).toHaveBeenCalledTimes(1);
  fireEvent.click(dialog.getByRole("button", { name: "Cancel task" }));
  await waitFor(() =>
    expect(api.POST).toHaveBeenLastCalledWith("/api/v1/tasks/{task_id}/cancel", expect.anything()),
  );
  fireEvent.click(dialog.getByRole("button", { name: "Cancel" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

test("more objects than fit in one request are asked in several", async () => {
  const asked = answerActions(["cancel"]);
  show(Array.from({ length: 501 }, (_, i) => cancel(String(i))));
  await waitFor(() => expect(asked.map((objects) => objects.length)).toEqual([500, 1]));
});
