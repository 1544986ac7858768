// @vitest-environment jsdom
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Feed, openFeed, parsePosition } from "./feed";
import { readMerged } from "./rows";

/** WebSocket whose server side is the test. */
class FakeSocket {
  static newest: FakeSocket;
  static readonly OPEN = 1;
  readonly readyState = FakeSocket.OPEN;
  sent: Record<string, unknown>[] = [];
  onopen = () => {};
  onmessage = (_: { data: string }) => {};
  onclose = (_: { code: number }) => {};
  constructor(readonly url: string) {
    FakeSocket.newest = this;
  }
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {}
  receive(message: object) {
    this.onmessage({ data: JSON.stringify(message) });
  }
}

const cache = new QueryClient();
const states: boolean[] = [];
const signedOut = vi.fn();
let feed: Feed;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  cache.setQueryData(["rows", "gpu"], [{ id: "a", notes: "" }]);
  states.length = 0;
  feed = openFeed(cache, parsePosition("e1.7"), (live) => states.push(live), signedOut);
  FakeSocket.newest.onopen();
  FakeSocket.newest.receive({ type: "hello", epoch: "e1", sequence: 7, resumed: true });
});
afterEach(() => {
  feed.close();
  vi.useRealTimers();
});

const change = (sequence: number, id: string, row: object | null) => ({
  type: "changes",
  items: [{ sequence, kind: "gpu", id, row }],
});

test("a change replaces its row, adds a new one first, and deletes a removed one", () => {
  FakeSocket.newest.receive(change(8, "a", { id: "a", notes: "new" }));
  FakeSocket.newest.receive(change(9, "b", { id: "b", notes: "" }));
  expect(cache.getQueryData(["rows", "gpu"])).toEqual([
    { id: "b", notes: "" },
    { id: "a", notes: "new" },
  ]);
  FakeSocket.newest.receive(change(10, "a", null));
  expect(cache.getQueryData(["rows", "gpu"])).toEqual([{ id: "b", notes: "" }]);
});

test("the first connection continues at the position of before the lists were read", () => {
  expect(FakeSocket.newest.sent[0]).toEqual({ type: "hello", epoch: "e1", sequence: 7 });
});

test("a first connection that cannot continue there invalidates all lists", () => {
  const invalidate = vi.spyOn(cache, "invalidateQueries");
  const other = openFeed(cache, parsePosition("e0.3"), () => {}, signedOut);
  FakeSocket.newest.receive({ type: "hello", epoch: "e1", sequence: 7, resumed: false });
  vi.runOnlyPendingTimers();
  expect(invalidate).toHaveBeenCalledWith({ queryKey: ["rows"] });
  other.close();
});

test("a reconnecting client sends its epoch and last sequence number", () => {
  FakeSocket.newest.receive(change(8, "a", { id: "a" }));
  FakeSocket.newest.onclose({ code: 1006 });
  expect(states.at(-1)).toBe(false);
  vi.runOnlyPendingTimers();
  FakeSocket.newest.onopen();
  expect(FakeSocket.newest.sent[0]).toEqual({ type: "hello", epoch: "e1", sequence: 8 });
});

test("resync invalidates all lists", () => {
  const invalidate = vi.spyOn(cache, "invalidateQueries");
  FakeSocket.newest.receive({ type: "resync", sequence: 20 });
  vi.runOnlyPendingTimers();
  expect(invalidate).toHaveBeenCalledWith({ queryKey: ["rows"] });
});

test("close code 4401 ends the session without a reconnect", () => {
  const socket = FakeSocket.newest;
  socket.onclose({ code: 4401 });
  vi.runOnlyPendingTimers();
  expect(signedOut).toHaveBeenCalled();
  expect(FakeSocket.newest).toBe(socket);
});

test("after close code 4403 the client reconnects without resuming and reads its roles", () => {
  const invalidate = vi.spyOn(cache, "invalidateQueries");
  FakeSocket.newest.receive(change(8, "a", { id: "a" }));
  FakeSocket.newest.onclose({ code: 4403 });
  expect(invalidate).toHaveBeenCalledWith({ queryKey: ["me"] });
  vi.runOnlyPendingTimers();
  FakeSocket.newest.onopen();
  expect(FakeSocket.newest.sent[0]).toEqual({ type: "hello", epoch: "", sequence: 8 });
  FakeSocket.newest.receive({ type: "hello", epoch: "e1", sequence: 8, resumed: false });
  vi.runOnlyPendingTimers();
  expect(invalidate).toHaveBeenCalledWith({ queryKey: ["rows"] });
  expect(signedOut).not.toHaveBeenCalled();
});

const ANSWERS = [
  ["actions", "row", "gpus/a"],
  ["actions", "row", "gpus/b"],
  ["actions", "gpus/b", "gpus/a"],
];
/** Put answers about actions into the cache. */
function cacheAnswers() {
  for (const key of ANSWERS) cache.setQueryData(key, []);
}
const outdated = () => ANSWERS.map((key) => cache.getQueryState(key)?.isInvalidated);

test("a change of an object invalidates the answers about its actions only", () => {
  cacheAnswers();
  FakeSocket.newest.receive(change(8, "a", { id: "a" }));
  expect(outdated()).toEqual([true, false, true]);
  expect(cache.getQueryCache().findAll({ queryKey: ["actions"] })).toHaveLength(ANSWERS.length);
});

test("close code 4403 invalidates the answers about actions at once", () => {
  cacheAnswers();
  FakeSocket.newest.onclose({ code: 4403 });
  expect(outdated()).toEqual([true, true, true]);
});

test.each([true, false])(
  "a reconnect invalidates answers about actions, resumed: %s",
  (resumed) => {
    cacheAnswers();
    FakeSocket.newest.onclose({ code: 1006 });
    vi.advanceTimersByTime(1_000);
    expect(outdated()).toEqual([false, false, false]);
    FakeSocket.newest.onopen();
    FakeSocket.newest.receive({ type: "hello", epoch: "e1", sequence: 7, resumed });
    vi.advanceTimersByTime(1_000);
    expect(outdated()).toEqual([true, true, true]);
  },
);

test("a resync invalidates the answers about actions", () => {
  cacheAnswers();
  FakeSocket.newest.receive({ type: "resync", sequence: 20 });
  vi.advanceTimersByTime(1_000);
  expect(outdated()).toEqual([true, true, true]);
});

test("a change that arrives while its list is read is in the list", async () => {
  const answers: ((rows: object[]) => void)[] = [];
  const read = () => new Promise<object[]>((resolve) => answers.push(resolve));
  const list = readMerged("gpu", read as () => Promise<{ id: string }[]>);
  FakeSocket.newest.receive(change(8, "b", { id: "b", notes: "" }));
  FakeSocket.newest.receive(change(9, "a", { id: "a", notes: "new" }));
  answers[0]?.([{ id: "a", notes: "" }]); // of before the changes
  expect(await list).toEqual([
    { id: "b", notes: "" },
    { id: "a", notes: "new" },
  ]);
});

test("the capacity is read again within a second after a change, and then every five seconds", async () => {
  const read = vi.fn(async () => 0);
  const observer = new QueryObserver(cache, { queryKey: ["capacity", "pool"], queryFn: read });
  const stop = observer.subscribe(() => {});
  await vi.advanceTimersByTimeAsync(0);
  const readsAfter = async (kinds: string[], ms = 0) => {
    read.mockClear();
    const items = kinds.map((kind) => ({ sequence: 8, kind, id: "z", row: null }));
    FakeSocket.newest.receive({ type: "changes", items });
    await vi.advanceTimersByTimeAsync(ms);
    return read.mock.calls.length;
  };
  expect(await readsAfter(["task"])).toBe(0);
  expect(await readsAfter(["partition"], 1_000)).toBe(1);
  expect(await readsAfter(["gpu", "node"], 1_000)).toBe(0);
  expect(await readsAfter([], 5_000)).toBe(1);
  expect(await readsAfter([], 10_000)).toBe(0);
  stop();
});

test("a change during a reading of the capacity is read after it", async () => {
  const answers: ((value: number) => void)[] = [];
  const read = vi.fn(() => new Promise<number>((resolve) => answers.push(resolve)));
  const observer = new QueryObserver(cache, { queryKey: ["capacity", "node"], queryFn: read });
  const stop = observer.subscribe(() => {});
  expect(read).toHaveBeenCalledTimes(1);
  const items = [{ sequence: 8, kind: "gpu", id: "z", row: null }];
  FakeSocket.newest.receive({ type: "changes", items });
  await vi.advanceTimersByTimeAsync(1_000);
  answers[0]?.(0);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(read).toHaveBeenCalledTimes(2);
  stop();
});
