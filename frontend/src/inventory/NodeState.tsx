import { Label } from "@patternfly/react-core";
import type { Node } from "../api/client";
import { ago } from "../model/format";
import { t } from "../text/text";
import { healthOf, healthText } from "./capacity";
import { SimulatedLabel } from "./Simulated";

const STATUS = {
  ready: "success",
  unreachable: "danger",
  cordoned: "warning",
  other: "info",
} as const;

/** State of a node; an unreachable one says since when its data are old. */
export function NodeState({ node }: { node: Node }) {
  const seen = node.reachable ? "" : t("state.lastSeen", { ago: ago(node.last_seen_at) });
  return (
    <>
      <Label status={STATUS[healthOf(node)]} isCompact>
        {healthText(node)}
      </Label>
      {node.simulated && <SimulatedLabel />}
      {seen && <span className="bb-quiet">{seen}</span>}
    </>
  );
}
