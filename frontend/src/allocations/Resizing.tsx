// What a resize that needs no more capacity waits for.
import { Alert } from "@patternfly/react-core";
import type { Schema } from "../api/client";
import { size } from "../model/format";
import { coded, t } from "../text/text";

export function Resizing({ resize }: { resize: Schema<"Resize"> }) {
  const { state, returned_bytes, over_bytes } = resize;
  const amounts = { returned: size(returned_bytes), total: size(returned_bytes + over_bytes) };
  return (
    <Alert variant="info" isInline component="p" title={coded("resize", state, state, amounts)}>
      {state === "shrinking" ? t("resize.rest") : resize.reason}
    </Alert>
  );
}
