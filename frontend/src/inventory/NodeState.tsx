import { Label } from "@patternfly/react-core";
import type { Node } from "../api/client";
import { healthOf, healthText } from "./capacity";

const STATUS = {
  ready: "success",
  unreachable: "danger",
  cordoned: "warning",
  other: "info",
} as const;

export function NodeState({ node }: { node: Node }) {
  return (
    <Label status={STATUS[healthOf(node)]} isCompact>
      {healthText(node)}
    </Label>
  );
}
