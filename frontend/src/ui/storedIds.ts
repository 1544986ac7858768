// Lists of ids that this browser remembers. All that use a list see its changes.
import { useCallback, useMemo, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
function subscribe(notify: () => void) {
  listeners.add(notify);
  window.addEventListener("storage", notify); // of other tabs
  return () => {
    listeners.delete(notify);
    window.removeEventListener("storage", notify);
  };
}

/** Read a list of ids; anything else counts as an empty one. */
function idsOf(text: string | null): string[] {
  try {
    const stored: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(stored) ? stored.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}

export function useStoredIds(key: string): [string[], (ids: readonly string[]) => void] {
  const name = `busbar.${key}`;
  const text = useSyncExternalStore(subscribe, () => localStorage.getItem(name));
  const ids = useMemo(() => idsOf(text), [text]);
  const store = useCallback(
    (next: readonly string[]) => {
      if (next.length === 0) localStorage.removeItem(name);
      else localStorage.setItem(name, JSON.stringify(next));
      for (const notify of listeners) notify();
    },
    [name],
  );
  return [ids, store];
}
