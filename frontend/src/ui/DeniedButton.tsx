import { Tooltip } from "@patternfly/react-core";
import type { ReactElement } from "react";

/** A button whose reason of refusal appears on hover and on focus. */
export function DeniedButton({ denied, children }: { denied: string; children: ReactElement }) {
  return denied ? <Tooltip content={denied}>{children}</Tooltip> : children;
}
