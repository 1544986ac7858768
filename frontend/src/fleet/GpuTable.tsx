import { Label } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import type { Gpu } from "../api/client";
import { partitionsByGpu } from "../api/indexes";
import { useRows } from "../api/queries";
import { allocated } from "../inventory/capacity";
import { gpuTrouble, isHeld } from "../inventory/gpuState";
import { SimulatedLabel } from "../inventory/Simulated";
import { gib } from "../model/format";
import { type Column, DataTable } from "../tables/DataTable";
import { gpuName } from "../tables/ObjectLink";
import { t } from "../text/text";

type Row = Gpu & { allocated: number };

const stateText = (g: Gpu) => gpuTrouble(g) || t("health.ready");

const COLUMNS: Column<Row>[] = [
  { id: "name", label: "kind.gpus", value: gpuName },
  {
    id: "node",
    label: "fleet.node",
    value: (g) => g.node,
    cell: (g) => <Link to={`/nodes/${g.node_id}`}>{g.node}</Link>,
  },
  { id: "model", label: "gpu.model", value: (g) => g.model },
  {
    id: "memory",
    label: "gpu.memory",
    value: (g) => g.memory_bytes,
    cell: (g) => gib(g.memory_bytes),
  },
  { id: "pool", label: "fleet.pool", value: (g) => g.pool ?? "" },
  {
    id: "allocated",
    label: "capacity.allocated",
    value: (g) => g.allocated,
    cell: (g) => `${g.allocated} %`,
  },
  {
    id: "state",
    label: "fleet.state",
    value: stateText,
    cell: (g) => (
      <>
        <Label
          isCompact
          status={g.present === false ? "danger" : isHeld(g) ? "warning" : "success"}
        >
          {stateText(g)}
        </Label>{" "}
        {g.simulated && <SimulatedLabel />}
      </>
    ),
  },
];

export function GpuTable({ gpus }: { gpus: Gpu[] }) {
  const partitions = partitionsByGpu(useRows("partition"));
  const rows = gpus
    .map((g): Row => ({ ...g, allocated: allocated(partitions.get(g.id) ?? []).percent }))
    .sort(
      (a, b) => a.node.localeCompare(b.node, undefined, { numeric: true }) || a.index - b.index,
    );
  return (
    <DataTable
      table="gpus"
      label={t("fleet.gpus")}
      rows={rows}
      columns={COLUMNS}
      target={(g) => ({ kind: "gpus", id: g.id, name: gpuName(g) })}
    />
  );
}
