// Results of changes. A success closes after a while; a failure stays until it is closed.
import { Alert, AlertActionCloseButton, AlertGroup } from "@patternfly/react-core";
import { type ReactNode, useSyncExternalStore } from "react";
import { t } from "../text/text";

export interface Toast {
  id: number;
  variant: "success" | "danger" | "info" | "warning";
  title: string;
  body?: ReactNode;
}
const SUCCESS_MS = 8_000;
let toasts: Toast[] = [];
let newest = 0;
const listeners = new Set<() => void>();

function publish(next: Toast[]) {
  toasts = next;
  for (const notify of listeners) notify();
}
export const closeToast = (id: number) => publish(toasts.filter((x) => x.id !== id));

export function toast(variant: Toast["variant"], title: string, body?: ReactNode) {
  const id = ++newest;
  // A repeated failure replaces the equal one instead of filling the screen.
  publish([...toasts.filter((x) => x.title !== title), { id, variant, title, body }]);
  if (variant === "success" || variant === "info")
    window.setTimeout(() => closeToast(id), SUCCESS_MS);
}
export const toastFailure = (what: string, error: unknown) =>
  toast("danger", what, error instanceof Error ? error.message : String(error));

const subscribe = (notify: () => void) => {
  listeners.add(notify);
  return () => listeners.delete(notify);
};

export function ToastRegion() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <AlertGroup isToast isLiveRegion aria-label={t("toast.region")}>
      {shown.map((x) => (
        <Alert
          key={x.id}
          variant={x.variant}
          title={x.title}
          component="p"
          actionClose={
            <AlertActionCloseButton
              aria-label={t("toast.close", { title: x.title })}
              onClose={() => closeToast(x.id)}
            />
          }
        >
          {x.body}
        </Alert>
      ))}
    </AlertGroup>
  );
}
