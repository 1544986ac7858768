import { QuickAction } from "../actions/QuickAction";
import type { Allocation } from "../api/client";
import { allocationName } from "../model/allocationNames";
import { t } from "../text/text";

/** Button of the most frequent action; it asks before it releases. */
export function ReleaseButton({ allocation: a }: { allocation: Allocation }) {
  const name = allocationName(a);
  return (
    <QuickAction
      target={{ kind: "allocations", id: a.id, name }}
      name="release"
      variant="link"
      ariaLabel={t("allocation.releaseName", { name })}
    />
  );
}
