// Workspace of a GPU.
import { Label } from "@patternfly/react-core";
import { useParams } from "@tanstack/react-router";
import { ActionMenu } from "../actions/ActionMenu";
import { AccessPane } from "../admin/AccessPane";
import { AllocationTable } from "../allocations/AllocationTable";
import { SessionTable } from "../allocations/SessionTable";
import type { Gpu } from "../api/client";
import { useRows } from "../api/queries";
import { GpuCharts } from "../charts/GpuCharts";
import { DuplicateAlert } from "../inventory/DuplicateGpu";
import { NodeState } from "../inventory/NodeState";
import { PartitionBar } from "../inventory/PartitionBar";
import { SimulatedLabel } from "../inventory/Simulated";
import { allocated, partitionsOf } from "../inventory/capacity";
import { contextText, isHeld } from "../inventory/gpuState";
import { gib } from "../model/format";
import type { Target } from "../model/kinds";
import { ObjectActivity } from "../tasks/ObjectActivity";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties, type Property, labelText } from "../ui/Properties";
import { Loaded, MissingPage, Permitted } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const linksText = (links: object): string =>
  Object.entries(links)
    .map(([index, way]) => `${index}: ${way}`)
    .join(", ") || t("gpu.linksUnknown");

const properties = (gpu: Gpu): Property[] => [
  [t("field.pool"), gpu.pool],
  [t("gpu.model"), gpu.model],
  [t("gpu.memory"), gib(gpu.memory_bytes)],
  [t("gpu.context"), contextText(gpu)],
  [t("field.labels"), labelText(gpu.labels)],
  [t("field.notes"), gpu.notes],
  ["UUID", <code key="uuid">GPU-{gpu.uuid}</code>],
  [t("gpu.capability"), gpu.compute_capability],
  ["PCI", gpu.pci_bus_id],
  [t("gpu.links"), linksText(gpu.links)],
  ["MIG", gpu.mig ? t("gpu.migOn") : t("gpu.migOff")],
];

function useTenants(gpu: Gpu) {
  const own = partitionsOf(gpu, useRows("partition"));
  const ids = new Set(own.map((p) => p.allocation_id));
  const allocations = useRows("allocation").filter((a) => ids.has(a.id));
  const sessions = useRows("session").filter(
    (s) => ids.has(s.allocation_id) && s.node === gpu.node,
  );
  return { own, allocations, sessions };
}

function Bar({ gpu }: { gpu: Gpu }) {
  const { own } = useTenants(gpu);
  const total = allocated(own);
  return (
    <Panel
      title={t("gpu.partitions")}
      detail={t("gpu.partitionsDetail", {
        percent: total.percent,
        free: gib(gpu.memory_bytes - total.memory_bytes),
      })}
    >
      <PartitionBar gpu={gpu} isTall />
    </Panel>
  );
}

function Summary({ gpu }: { gpu: Gpu }) {
  const { allocations, sessions } = useTenants(gpu);
  return (
    <>
      <DuplicateAlert gpu={gpu} />
      <Bar gpu={gpu} />
      <GpuCharts gpu={gpu} />
      <Permitted kind="session">
        <SessionTable sessions={sessions} />
      </Permitted>
      <Permitted kind="allocation">
        <AllocationTable allocations={allocations} title={t("allocation.onGpu")} />
      </Permitted>
    </>
  );
}

function GpuHeader({ gpu, target }: { gpu: Gpu; target: Target }) {
  const node = useRows("node").find((n) => n.id === gpu.node_id);
  return (
    <PageHeader
      title={`GPU ${gpu.index}`}
      detail={gpu.model}
      trail={[
        [t("nav.overview"), "/"],
        [gpu.node, `/nodes/${gpu.node_id}`],
      ]}
      labels={
        <>
          {isHeld(gpu) && <Label status="warning">{t("gpu.held")}</Label>}
          {gpu.present === false && <Label status="danger">{t("gpu.missing")}</Label>}
          {node && !node.reachable ? (
            <NodeState node={node} />
          ) : (
            gpu.simulated && <SimulatedLabel />
          )}
        </>
      }
      actions={<ActionMenu targets={[target]} />}
    />
  );
}

const panesOf = (gpu: Gpu, target: Target): Pane[] => [
  { id: "summary", label: "tab.summary", content: () => <Summary gpu={gpu} /> },
  {
    id: "configure",
    label: "tab.configure",
    content: () => (
      <Panel title={t("work.properties")}>
        <Properties properties={properties(gpu)} />
      </Panel>
    ),
  },
  { id: "events", label: "tab.events", content: () => <ObjectActivity target={target} /> },
  { id: "permissions", label: "tab.permissions", content: () => <AccessPane target={target} /> },
];

function Workspace() {
  const { id } = useParams({ strict: false }) as { id: string };
  const gpu = useRows("gpu").find((g) => g.id === id);
  if (!gpu) return <MissingPage what={t("kind.gpus")} />;
  const target = { kind: "gpus" as const, id, name: `${gpu.node} GPU ${gpu.index}` };
  return (
    <>
      <GpuHeader gpu={gpu} target={target} />
      <TabPanes label={target.name} panes={panesOf(gpu, target)} />
    </>
  );
}

export default function GpuPage() {
  return (
    <Loaded kinds={["gpu", "node", "partition"]} optional={["allocation", "session"]}>
      <Workspace />
    </Loaded>
  );
}
