// Fleet: heat map, capacity, the queue with its reasons, what is held but idle, time to GPU.
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { AllocationTable } from "../allocations/AllocationTable";
import { api, unwrap } from "../api/client";
import { sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { GpuTable } from "../fleet/GpuTable";
import { HeatMap } from "../fleet/HeatMap";
import { NodeTable } from "../fleet/NodeTable";
import { CapacityCard } from "../inventory/CapacityCard";
import { number } from "../model/format";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Loaded, Permitted, QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const seconds = (value: number | null) => (value === null ? "–" : `${number(value, 1)} s`);

function TimeToGpu() {
  const waits = useQuery({
    queryKey: ["detail", "time-to-gpu"],
    queryFn: () => api.GET("/api/v1/time-to-gpu", { params: { query: {} } }).then(unwrap),
    refetchInterval: 30_000,
  });
  return (
    <Panel title={t("fleet.timeToGpu")}>
      <QueryState query={waits}>
        {(data) => (
          <Table variant="compact" aria-label={t("fleet.timeToGpu")}>
            <Thead>
              <Tr>
                <Th>{t("fleet.class")}</Th>
                <Th>{t("fleet.started")}</Th>
                <Th>{t("fleet.median")}</Th>
                <Th>{t("fleet.p90")}</Th>
                <Th>{t("fleet.target")}</Th>
                <Th>{t("fleet.within")}</Th>
                <Th>{t("fleet.waiting")}</Th>
              </Tr>
            </Thead>
            <Tbody>
              {data.items.map((c) => (
                <Tr key={c.name}>
                  <Td>{c.name}</Td>
                  <Td>{c.count}</Td>
                  <Td>{seconds(c.p50_seconds)}</Td>
                  <Td>{seconds(c.p90_seconds)}</Td>
                  <Td>{seconds(c.target_seconds)}</Td>
                  <Td>
                    {c.within_target_share === null
                      ? "–"
                      : `${number(100 * c.within_target_share)} %`}
                  </Td>
                  <Td>{c.queued}</Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
      </QueryState>
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
