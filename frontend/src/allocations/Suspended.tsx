import { Alert } from "@patternfly/react-core";
import type { Allocation } from "../api/client";
import { size } from "../model/format";
import { coded, t } from "../text/text";

/** Progress of a suspension, or the failure of the last one. */
export function Suspended({
  suspension: s,
}: {
  suspension: NonNullable<Allocation["suspension"]>;
}) {
  return (
    <Alert
      variant={s.state === "failed" ? "warning" : "info"}
      isInline
      component="p"
      title={coded("suspension", s.state, s.state)}
    >
      {s.released_bytes > 0 && <p>{t("allocation.released", { size: size(s.released_bytes) })}</p>}
      {s.reason && <p>{s.reason}</p>}
    </Alert>
  );
}
