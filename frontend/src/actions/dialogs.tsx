// Dialogs that any action can open. One is open at a time.
import { type ReactNode, useSyncExternalStore } from "react";

type Dialog = (close: () => void) => ReactNode;
let current: Dialog | null = null;
const listeners = new Set<() => void>();
function publish(next: Dialog | null) {
  current = next;
  for (const notify of listeners) notify();
}
const subscribe = (notify: () => void) => {
  listeners.add(notify);
  return () => listeners.delete(notify);
};
const close = () => publish(null);

export const openDialog = (dialog: Dialog) => publish(dialog);

export function DialogHost() {
  const dialog = useSyncExternalStore(subscribe, () => current);
  return dialog?.(close) ?? null;
}
