import { Tooltip } from "@patternfly/react-core";
import type { ReactElement } from "react";

/**
 * A button whose reason of refusal appears on hover and on focus.
 *
 * A permitted button has a tooltip that never opens: the element stays the same when the answer
 * of the server arrives, and keeps its focus.
 */
export function DeniedButton({ denied, children }: { denied: string; children: ReactElement }) {
  return (
    <Tooltip content={denied} trigger={denied ? "mouseenter focus" : "manual"}>
      {children}
    </Tooltip>
  );
}
