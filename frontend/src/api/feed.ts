// Live feed client. Each change carries its row, updates the query cache and invalidates what
// depends on it: the actions of its object, and the capacity. After a gap, everything is invalidated.
import type { QueryClient } from "@tanstack/react-query";
import { CapacityReader } from "./capacityReader";
import { isKind, rowsQuery } from "./queries";
import { type Fresh, type Kind, type Row, merged, note, noteWhileRead } from "./rows";
import { type Sample, addSamples, setWatcher, watched } from "./samples";

interface Change {
  sequence: number;
  kind: string;
  id: string;
  row: Row | null;
}

interface Hello {
  type: "hello";
  epoch: string;
  sequence: number;
  resumed: boolean;
}
type Message =
  | Hello
  | { type: "changes"; items: Change[] }
  | { type: "resync"; sequence: number }
  | { type: "samples"; gpus: Record<string, Sample[]> };

const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
/** Kinds whose changes change the capacity. */
const OF_CAPACITY: ReadonlySet<string> = new Set(["gpu", "node", "partition", "pool"]);
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
  const feed = new LiveFeed(cache, position, onState, onSignedOut);
  setWatcher((gpus) => feed.send({ type: "watch", gpus }));
  feed.connect();
  return feed;
}

class LiveFeed implements Feed {
  private socket: WebSocket | undefined;
  private isClosed = false;
  private delay = MIN_RETRY_MS;
  private timer = 0;
  private readonly capacity: CapacityReader;

  constructor(
    private readonly cache: QueryClient,
    private readonly position: Position,
    private readonly onState: (live: boolean) => void,
    private readonly onSignedOut: () => void,
  ) {
    this.capacity = new CapacityReader(cache);
  }

  send(message: object) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  connect() {
    const socket = new WebSocket(`wss://${location.host}/api/v1/feed`);
    this.socket = socket;
    socket.onopen = () => {
      const { epoch, sequence } = this.position;
      this.send({ type: "hello", epoch, sequence });
    };
    socket.onmessage = (e) => this.handle(JSON.parse(e.data as string) as Message);
    socket.onclose = (e) => this.retry(e.code);
  }

  close() {
    this.isClosed = true;
    window.clearTimeout(this.timer);
    this.capacity.close();
    setWatcher(() => {});
    this.socket?.close();
  }

  private retry(code: number) {
    this.onState(false);
    if (this.isClosed) return;
    if (code === UNAUTHENTICATED) return this.onSignedOut();
    if (code === ROLES_CHANGED) {
      this.position.epoch = ""; // not resumed: all lists are read again
      this.invalidate("me", "actions");
    }
    this.timer = window.setTimeout(() => this.connect(), this.delay * (0.5 + Math.random()));
    this.delay = Math.min(this.delay * 2, MAX_RETRY_MS);
  }

  private invalidate(...names: string[]) {
    for (const name of names) void this.cache.invalidateQueries({ queryKey: [name] });
  }

  // Jitter: after a restart of the appliance all consoles reconnect together.
  private invalidateSoon(...names: string[]) {
    window.setTimeout(() => this.invalidate(...names), Math.random() * 500);
  }

  private handle(message: Message) {
    if (message.type === "samples") addSamples(message.gpus);
    else if (message.type === "hello") this.greet(message);
    else if (message.type === "resync") {
      this.position.sequence = message.sequence;
      this.invalidateSoon("rows", "actions", "capacity");
    } else this.apply(message.items);
  }

  private greet({ epoch, sequence, resumed }: Hello) {
    const { position } = this;
    position.epoch = epoch;
    if (!resumed) {
      position.sequence = sequence;
      this.invalidateSoon("rows", "capacity");
    }
    if (position.wasLive || !resumed) this.invalidateSoon("actions");
    position.wasLive = true;
    this.delay = MIN_RETRY_MS;
    this.onState(true);
    this.send({ type: "watch", gpus: watched() });
  }

  private apply(changes: Change[]) {
    this.position.sequence = changes.at(-1)?.sequence ?? this.position.sequence;
    applyChanges(this.cache, changes);
    invalidateAnswers(this.cache, changes);
    if (changes.some(({ kind }) => OF_CAPACITY.has(kind))) this.capacity.invalidate();
  }
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
