// The live feed: each change carries the row, so the cache is patched and nothing is read again; after a gap all of it is.
import type { QueryClient } from "@tanstack/react-query";
import { type Kind, KEPT, isKind, rowsOf } from "./queries";
import { type Sample, addSamples, setWatcher, watched } from "./samples";

interface Change {
  sequence: number;
  kind: string;
  id: string;
  row: { id: string; state?: string; closed_at?: string | null } | null;
}

type Message =
  | { type: "hello"; epoch: string; sequence: number; resumed: boolean }
  | { type: "changes"; items: Change[] }
  | { type: "resync"; sequence: number }
  | { type: "samples"; gpus: Record<string, Sample[]> };

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
const UNAUTHENTICATED = 4401;

export interface Feed {
  close(): void;
}

/** Keeps a socket open until closed. `onState` says whether what is shown is live; `onSignedOut` that the session is over. */
export function openFeed(cache: QueryClient, onState: (live: boolean) => void, onSignedOut: () => void): Feed {
  let socket: WebSocket | undefined;
  let closed = false;
  let epoch = "";
  let sequence = -1;
  let delay = FIRST_RETRY_MS;
  let timer = 0;

  const say = (message: object) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
  setWatcher((gpus) => say({ type: "watch", gpus }));

  const readAgain = () => {
    // Jitter: after a restart of the appliance every console comes at once.
    window.setTimeout(() => cache.invalidateQueries({ queryKey: ["rows"] }), Math.random() * 500);
  };

  function handle(message: Message) {
    if (message.type === "samples") return addSamples(message.gpus);
    if (message.type === "hello") {
      const first = sequence === -1;
      epoch = message.epoch;
      if (!message.resumed) {
        sequence = message.sequence;
        if (!first) readAgain();
      }
      delay = FIRST_RETRY_MS;
      onState(true);
      say({ type: "watch", gpus: watched() });
    } else if (message.type === "resync") {
      sequence = message.sequence;
      readAgain();
    } else {
      for (const change of message.items) {
        sequence = change.sequence;
        if (isKind(change.kind)) patch(cache, change.kind, change.id, change.row);
      }
    }
  }

  function connect() {
    socket = new WebSocket(`wss://${location.host}/api/v1/feed`);
    socket.onopen = () => say({ type: "hello", epoch, sequence });
    socket.onmessage = (e) => handle(JSON.parse(e.data as string) as Message);
    socket.onclose = (e) => {
      onState(false);
      if (closed) return;
      if (e.code === UNAUTHENTICATED) return onSignedOut();
      timer = window.setTimeout(connect, delay * (0.5 + Math.random()));
      delay = Math.min(delay * 2, LAST_RETRY_MS);
    };
  }
  connect();
  return {
    close() {
      closed = true;
      window.clearTimeout(timer);
      setWatcher(() => {});
      socket?.close();
    },
  };
}

/** Newest first, as the lists are read. Removed and closed rows leave the lists that show only what is there. */
function patch(cache: QueryClient, kind: Kind, id: string, row: { id: string; state?: string } | null) {
  const gone = row === null || (kind === "session" && row.state === "closed") || (kind === "node" && row.state === "removed");
  cache.setQueryData<{ id: string }[]>(rowsOf(kind).queryKey as readonly unknown[], (rows) => {
    if (!rows) return rows;
    if (gone) return rows.filter((r) => r.id !== id);
    const known = rows.some((r) => r.id === id);
    const next = known ? rows.map((r) => (r.id === id ? row : r)) : [row, ...rows];
    return KEPT[kind] ? next.slice(0, KEPT[kind]) : next;
  });
}
