// Live feed client. Each change carries its row, updates the query cache and invalidates what
// depends on it: the actions of its object, and the capacity. After a gap, everything is invalidated.
import type { QueryClient } from "@tanstack/react-query";
import { type Kind, isKind, rowsQuery } from "./queries";
import { type Fresh, type Row, merged, note, noteWhileRead } from "./rows";
import { type Sample, addSamples, setWatcher, watched } from "./samples";

interface Change {
  sequence: number;
  kind: string;
  id: string;
  row: Row | null;
}

type Message =
  | { type: "hello"; epoch: string; sequence: number; resumed: boolean }
  | { type: "changes"; items: Change[] }
  | { type: "resync"; sequence: number }
  | { type: "samples"; gpus: Record<string, Sample[]> };

const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
/** Kinds whose changes change the capacity, and the least time between two readings of it. */
const OF_CAPACITY: ReadonlySet<string> = new Set(["gpu", "node", "partition", "pool"]);
const CAPACITY_MS = 5_000;
const UNAUTHENTICATED = 4401;
const ROLES_CHANGED = 4403;

export interface Feed {
  close(): void;
}

/** What the cache contains: all changes up to this one. `openFeed` continues after it. */
export interface Position {
  epoch: string;
  sequence: number;
  /** A feed was connected before: answers about actions may be older than changes of roles. */
  wasLive: boolean;
}

/** Return the position of an answer of the appliance, before any list is read. */
export function parsePosition(text: string): Position {
  const [epoch = "", sequence = "-1"] = text.split(".");
  return { epoch, sequence: Number(sequence), wasLive: false };
}

/**
 * Keep a WebSocket open until closed, and `position` up to date. `onState` receives the connection
 * state; `onSignedOut` is called when the token is no longer valid.
 */
export function openFeed(
  cache: QueryClient,
  position: Position,
  onState: (live: boolean) => void,
  onSignedOut: () => void,
): Feed {
  let socket: WebSocket | undefined;
  let closed = false;
  let delay = MIN_RETRY_MS;
  let timer = 0;

  const send = (message: object) =>
    socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
  setWatcher((gpus) => send({ type: "watch", gpus }));

  // Jitter: after a restart of the appliance all consoles reconnect together.
  const invalidateSoon = (...names: string[]) =>
    window.setTimeout(() => {
      for (const name of names) void cache.invalidateQueries({ queryKey: [name] });
    }, Math.random() * 500);

  // Computing it takes the appliance longer than a change, which all consoles get at the same time:
  // each reads it within a second after a first change, and after later ones together. A reading
  // that takes long is not cancelled by the next.
  let capacityTimer = 0;
  let isCapacityOld = false;
  function invalidateCapacity() {
    isCapacityOld = true;
    if (capacityTimer !== 0) return;
    capacityTimer = window.setTimeout(() => {
      isCapacityOld = cache.isFetching({ queryKey: ["capacity"] }) > 0; // it began before the change
      void cache.invalidateQueries({ queryKey: ["capacity"] }, { cancelRefetch: false });
      capacityTimer = window.setTimeout(() => {
        capacityTimer = 0;
        if (isCapacityOld) invalidateCapacity();
      }, CAPACITY_MS);
    }, Math.random() * 1_000);
  }

  function handle(message: Message) {
    if (message.type === "samples") return addSamples(message.gpus);
    if (message.type === "hello") {
      position.epoch = message.epoch;
      if (!message.resumed) {
        position.sequence = message.sequence;
        invalidateSoon("rows", "capacity");
      }
      if (position.wasLive || !message.resumed) invalidateSoon("actions");
      position.wasLive = true;
      delay = MIN_RETRY_MS;
      onState(true);
      send({ type: "watch", gpus: watched() });
    } else if (message.type === "resync") {
      position.sequence = message.sequence;
      invalidateSoon("rows", "actions", "capacity");
    } else {
      position.sequence = message.items.at(-1)?.sequence ?? position.sequence;
      applyChanges(cache, message.items);
      invalidateAnswers(cache, message.items);
      if (message.items.some(({ kind }) => OF_CAPACITY.has(kind))) invalidateCapacity();
    }
  }

  function connect() {
    socket = new WebSocket(`wss://${location.host}/api/v1/feed`);
    socket.onopen = () =>
      send({ type: "hello", epoch: position.epoch, sequence: position.sequence });
    socket.onmessage = (e) => handle(JSON.parse(e.data as string) as Message);
    socket.onclose = (e) => {
      onState(false);
      if (closed) return;
      if (e.code === UNAUTHENTICATED) return onSignedOut();
      if (e.code === ROLES_CHANGED) {
        position.epoch = ""; // not resumed: all lists are read again
        for (const name of ["me", "actions"]) void cache.invalidateQueries({ queryKey: [name] });
      }
      timer = window.setTimeout(connect, delay * (0.5 + Math.random()));
      delay = Math.min(delay * 2, MAX_RETRY_MS);
    };
  }
  connect();
  return {
    close() {
      closed = true;
      window.clearTimeout(timer);
      window.clearTimeout(capacityTimer);
      setWatcher(() => {});
      socket?.close();
    },
  };
}

/** Apply the changes of one message to the cached lists: each list is written once. */
export function applyChanges(cache: QueryClient, changes: Change[]) {
  const byKind = new Map<Kind, Fresh>();
  for (const { kind, id, row } of changes) {
    if (!isKind(kind)) continue;
    const rows = byKind.get(kind) ?? (new Map() as Fresh);
    note(rows, id, row);
    byKind.set(kind, rows);
  }
  for (const [kind, fresh] of byKind) {
    noteWhileRead(kind, fresh);
    cache.setQueryData<Row[]>(
      rowsQuery(kind).queryKey as readonly unknown[],
      (rows) => rows && merged(kind, rows, fresh),
    );
  }
}

/** Invalidate the answers about actions of changed objects, in one pass over the queries. */
function invalidateAnswers(cache: QueryClient, changes: Change[]) {
  const changed = new Set<unknown>(changes.map(({ kind, id }) => `${kind}s/${id}`));
  void cache.invalidateQueries({
    queryKey: ["actions"],
    predicate: ({ queryKey }) => queryKey.some((part) => changed.has(part)),
  });
}
