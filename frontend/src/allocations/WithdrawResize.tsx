// Button that takes back a resize that waits.
import { Button } from "@patternfly/react-core";
import { useState } from "react";
import { useRowActions } from "../actions/queries";
import { withdrawResize } from "../actions/resize";
import { refresh } from "../api/cache";
import type { Allocation } from "../api/client";
import { allocationName } from "../model/allocationNames";
import { t } from "../text/text";
import { DeniedButton } from "../ui/DeniedButton";
import { toastFailure } from "../ui/toasts";

export function WithdrawResize({ allocation: a }: { allocation: Allocation }) {
  const [busy, setBusy] = useState(false);
  const name = allocationName(a);
  const answers = useRowActions({ kind: "allocations", id: a.id, name }, true);
  const denied = answers?.find((x) => x.name === "resize")?.reason ?? "";
  const isOff = Boolean(denied) || busy;
  const withdraw = async () => {
    setBusy(true);
    await withdrawResize(a).catch((problem: unknown) => {
      toastFailure(t("result.failed", { action: t("resize.withdraw"), name }), problem);
      refresh();
    });
    setBusy(false);
  };
  return (
    <DeniedButton denied={denied}>
      <Button
        variant="secondary"
        isLoading={busy}
        isAriaDisabled={isOff}
        onClick={() => isOff || void withdraw()}
      >
        {t("resize.withdraw")}
      </Button>
    </DeniedButton>
  );
}
