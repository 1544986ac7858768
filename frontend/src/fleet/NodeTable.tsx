import type { Node } from "../api/client";
import { gpusByNode } from "../api/indexes";
import { useRows } from "../api/queries";
import { NodeState } from "../inventory/NodeState";
import { healthText } from "../inventory/capacity";
import { ago } from "../model/format";
import { DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { labelText } from "../ui/Properties";

type Row = Node & { gpus: number };

export function NodeTable() {
  const groups = gpusByNode(useRows("gpu"));
  const rows = useRows("node").map((n): Row => ({ ...n, gpus: groups.get(n.id)?.length ?? 0 }));
  return (
    <Panel title={t("fleet.nodes")}>
      <DataTable
        table="nodes"
        label={t("fleet.nodes")}
        rows={rows}
        hasBulk
        target={(n) => ({ kind: "nodes", id: n.id, name: n.name })}
        columns={[
          { id: "name", label: "field.name", value: (n) => n.name },
          {
            id: "state",
            label: "fleet.state",
            value: healthText,
            cell: (n) => <NodeState node={n} />,
          },
          { id: "gpus", label: "node.gpus", value: (n) => n.gpus },
          { id: "site", label: "node.site", value: (n) => n.site ?? "" },
          { id: "driver", label: "node.driver", value: (n) => n.driver_version ?? "" },
          { id: "agent", label: "node.agent", value: (n) => n.agent_version ?? "" },
          { id: "labels", label: "field.labels", value: (n) => labelText(n.labels) },
          {
            id: "seen",
            label: "node.lastSeen",
            value: (n) => n.last_seen_at ?? "",
            cell: (n) => ago(n.last_seen_at),
          },
        ]}
      />
    </Panel>
  );
}
