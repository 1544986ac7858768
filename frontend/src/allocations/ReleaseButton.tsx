import { Button, Tooltip } from "@patternfly/react-core";
import { useAccount } from "../account/account";
import { specsOf, perform } from "../actions/registry";
import type { Allocation } from "../api/client";
import { t } from "../text/text";
import { allocationName } from "./names";

/** Button of the most frequent action; it asks before it releases. */
export function ReleaseButton({ allocation: a }: { allocation: Allocation }) {
  const { me } = useAccount();
  const isOther = a.owner !== me.username && !me.privileges.includes("allocations.manage");
  const spec = specsOf("allocations").find((s) => s.name === "release");
  const name = allocationName(a);
  const button = (
    <Button
      variant="link"
      isInline
      isAriaDisabled={isOther}
      aria-label={t("allocation.releaseName", { name })}
      onClick={() => !isOther && spec && perform(spec, [{ kind: "allocations", id: a.id, name }])}
    >
      {t("action.release")}
    </Button>
  );
  return isOther ? <Tooltip content={t("allocation.notOwner")}>{button}</Tooltip> : button;
}
