import { t } from "../text/text";
import type { Actionable } from "./kinds";

/** The row of an object. Throws an error for the user if the object no longer exists. */
export function present<R extends { id?: string | null }>(rows: readonly R[], x: Actionable): R {
  const row = rows.find((r) => r.id === x.id);
  if (!row) throw new Error(t("result.gone"));
  return row;
}
