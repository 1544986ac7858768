// Fleet: heat map, capacity, the queue with its reasons, what is held but idle, time to GPU.
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { AllocationTable } from "../allocations/AllocationTable";
import { type Schema, api, unwrap } from "../api/client";
import { sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { GpuTable } from "../fleet/GpuTable";
import { HeatMap } from "../fleet/HeatMap";
import { NodeTable } from "../fleet/NodeTable";
import { CapacityCard } from "../inventory/CapacityCard";
import { number } from "../model/format";
import { type Key, t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Loaded, Permitted, QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const seconds = (value: number | null) => (value === null ? "–" : `${number(value, 1)} s`);

type Waits = Schema<"TimeToGpuClass">;

const WAIT_COLUMNS: readonly [label: Key, value: (waits: Waits) => ReactNode][] = [
  ["fleet.class", (w) => w.name],
  ["fleet.started", (w) => w.count],
  ["fleet.median", (w) => seconds(w.p50_seconds)],
  ["fleet.p90", (w) => seconds(w.p90_seconds)],
  ["fleet.target", (w) => seconds(w.target_seconds)],
  [
    "fleet.within",
    ({ within_target_share: share }) => (share === null ? "–" : `${number(100 * share)} %`),
  ],
  ["fleet.waiting", (w) => w.queued],
];

function WaitTable({ classes }: { classes: Waits[] }) {
  return (
    <Table variant="compact" aria-label={t("fleet.timeToGpu")}>
      <Thead>
        <Tr>
          {WAIT_COLUMNS.map(([label]) => (
            <Th key={label}>{t(label)}</Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {classes.map((w) => (
          <Tr key={w.name}>
            {WAIT_COLUMNS.map(([label, value]) => (
              <Td key={label}>{value(w)}</Td>
            ))}
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function TimeToGpu() {
  const waits = useQuery({
    queryKey: ["detail", "time-to-gpu"],
    queryFn: () => api.GET("/api/v1/time-to-gpu", { params: { query: {} } }).then(unwrap),
    refetchInterval: 30_000,
  });
  return (
    <Panel title={t("fleet.timeToGpu")}>
      <QueryState query={waits}>{(data) => <WaitTable classes={data.items} />}</QueryState>
    </Panel>
  );
}

function Queue() {
  const queued = useRows("allocation").filter((a) => a.state === "queued");
  return queued.length > 0 ? (
    <AllocationTable title={t("fleet.queue")} allocations={queued} />
  ) : (
    <Panel title={t("fleet.queue")}>
      <p className="bb-quiet">{t("fleet.noQueue")}</p>
    </Panel>
  );
}

function Idle() {
  const sessions = sessionsByAllocation(useRows("session"));
  const idle = useRows("allocation").filter((a) => a.state === "active" && !sessions.has(a.id));
  return idle.length > 0 ? (
    <AllocationTable title={t("fleet.idle")} allocations={idle} />
  ) : (
    <Panel title={t("fleet.idle")}>
      <p className="bb-quiet">{t("fleet.noIdle")}</p>
    </Panel>
  );
}

function AllGpus() {
  return (
    <Panel title={t("fleet.gpus")}>
      <GpuTable gpus={useRows("gpu")} />
    </Panel>
  );
}

const PANES: readonly Pane[] = [
  {
    id: "summary",
    label: "tab.summary",
    content: () => (
      <>
        <HeatMap />
        <CapacityCard />
        <Permitted kind="allocation">
          <Queue />
          <Idle />
        </Permitted>
        <TimeToGpu />
      </>
    ),
  },
  { id: "gpus", label: "fleet.gpus", content: () => <AllGpus /> },
  { id: "nodes", label: "fleet.nodes", content: () => <NodeTable /> },
];

export default function FleetPage() {
  return (
    <>
      <PageHeader title={t("nav.fleet")} />
      <Loaded kinds={["node", "gpu", "partition"]} optional={["allocation", "session"]}>
        <TabPanes label={t("nav.fleet")} panes={PANES} />
      </Loaded>
    </>
  );
}
