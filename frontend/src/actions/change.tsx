// One way to make a change: its result is always visible, and what it affects is read again.
import { refresh } from "../api/cache";
import { Problem } from "../api/client";
import { toast, toastFailure } from "../ui/toasts";

const STALE = 412;

/** Make a change. A failure is shown and stays; it is also thrown for dialogs that keep open. */
export async function change<T>(title: string, send: () => Promise<T>): Promise<T> {
  const result = await send().catch((problem: unknown) => {
    if (problem instanceof Problem && problem.status === STALE) refresh();
    throw problem;
  });
  toast("success", title);
  refresh();
  return result;
}

/** Make a change from a menu, where no dialog could show the failure. */
export const changeNow = (title: string, failed: string, send: () => Promise<unknown>) =>
  change(title, send).catch((problem: unknown) => toastFailure(failed, problem));

/** Make a change of each target and report failures one by one. */
export async function changeEach<T extends { name: string }>(
  targets: T[],
  title: (target: T) => string,
  failed: (target: T) => string,
  send: (target: T) => Promise<unknown>,
) {
  for (const target of targets) await changeNow(title(target), failed(target), () => send(target));
}
