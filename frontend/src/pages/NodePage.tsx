// Workspace of a node.
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { ActionMenu } from "../actions/ActionMenu";
import { QuickAction } from "../actions/QuickAction";
import { AccessPane } from "../admin/AccessPane";
import { ObjectAlarms } from "../alarms/ObjectAlarms";
import { AllocationTable } from "../allocations/AllocationTable";
import { SessionTable } from "../allocations/SessionTable";
import { type Node, api, readAllPages, unwrap } from "../api/client";
import { gpusByNode, partitionsByGpu } from "../api/indexes";
import { useRows } from "../api/queries";
import { GpuCharts } from "../charts/GpuCharts";
import { GpuRow } from "../inventory/GpuRow";
import { NodeState } from "../inventory/NodeState";
import { dateTime } from "../model/format";
import { ObjectActivity } from "../tasks/ObjectActivity";
import { coded, t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties, type Property, labelText } from "../ui/Properties";
import { Loaded, MissingPage, Permitted, QueryState } from "../ui/states";
import { TabPanes } from "../ui/TabPanes";

function useGpus(node: Node) {
  const own = gpusByNode(useRows("gpu")).get(node.id) ?? [];
  return [...own].sort((a, b) => a.index - b.index);
}

const endpointsText = (node: Node) =>
  node.endpoints
    .map((e) => `${e.address}:${e.port}${e.network === "default" ? "" : ` (${e.network})`}`)
    .join(", ");

function properties(node: Node): Property[] {
  return [
    [t("node.site"), node.site],
    [t("field.labels"), labelText(node.labels)],
    [t("field.notes"), node.notes],
    [t("node.dataPlane"), endpointsText(node)],
    [t("node.driver"), node.software ? t("node.software") : node.driver_version],
    ["CUDA", node.cuda_version ? t("node.cudaUpTo", { version: node.cuda_version }) : "–"],
    [
      t("node.agent"),
      node.agent_outdated
        ? t("node.outdated", { version: node.agent_version ?? "" })
        : node.agent_version,
    ],
    [t("node.system"), node.operating_system],
    [t("node.isolation"), node.isolation],
    [t("node.lastSeen"), dateTime(node.last_seen_at)],
    [t("node.since"), dateTime(node.created_at)],
    [
      t("node.generation"),
      t("node.generationText", {
        wanted: node.generation ?? 0,
        applied: node.applied_generation ?? 0,
      }),
    ],
  ];
}

function Blockers({ node }: { node: Node }) {
  const blockers = useQuery({
    queryKey: ["detail", "blockers", node.id],
    queryFn: () =>
      readAllPages((cursor) =>
        api
          .GET("/api/v1/nodes/{node_id}/blockers", {
            params: { path: { node_id: node.id }, query: { limit: 500, cursor } },
          })
          .then(unwrap),
      ),
    refetchInterval: 5_000,
  });
  return (
    <Panel title={t("node.blockers")}>
      <QueryState query={blockers}>
        {(rows) =>
          rows.length === 0 ? (
            <p className="bb-quiet">{t("node.noBlockers")}</p>
          ) : (
            <ul>
              {rows.map((b) => (
                <li key={b.id}>
                  {b.name || b.id.slice(-8)}, {b.owner},{" "}
                  {coded("allocationState", b.state, b.state)}
                  {b.evict_at && `, ${t("node.evictedAt", { time: dateTime(b.evict_at) })}`}
                </li>
              ))}
            </ul>
          )
        }
      </QueryState>
    </Panel>
  );
}

function Summary({ node }: { node: Node }) {
  const gpus = useGpus(node);
  const byGpu = partitionsByGpu(useRows("partition"));
  const ids = new Set(gpus.flatMap((g) => (byGpu.get(g.id) ?? []).map((p) => p.allocation_id)));
  const allocations = useRows("allocation").filter((a) => ids.has(a.id));
  return (
    <>
      <Panel title={t("node.gpus")}>
        <div className={node.reachable ? "" : "bb-stale"}>
          {gpus.map((g) => (
            <GpuRow key={g.id} gpu={g} />
          ))}
        </div>
        {gpus.length === 0 && <p className="bb-quiet">{t("node.noGpus")}</p>}
      </Panel>
      {node.state !== "ready" && <Blockers node={node} />}
      <Permitted kind="allocation">
        <AllocationTable title={t("node.allocations")} allocations={allocations} />
      </Permitted>
      <Panel title={t("work.properties")}>
        <Properties properties={properties(node)} />
      </Panel>
    </>
  );
}

function Monitor({ node }: { node: Node }) {
  const gpus = useGpus(node);
  const sessions = useRows("session").filter((s) => s.node === node.name);
  return (
    <>
      {gpus.map((g) => (
        <GpuCharts key={g.id} gpu={g} />
      ))}
      <ObjectAlarms target={{ kind: "nodes", id: node.id }} />
      <Permitted kind="session">
        <SessionTable sessions={sessions} />
      </Permitted>
    </>
  );
}

function Workspace() {
  const { id } = useParams({ strict: false }) as { id: string };
  const node = useRows("node").find((n) => n.id === id);
  if (!node) return <MissingPage what={t("kind.nodes")} />;
  const target = { kind: "nodes" as const, id, name: node.name };
  const cordoned = node.state === "cordoned";
  return (
    <>
      <PageHeader
        title={node.name}
        trail={[[t("nav.overview"), "/"]]}
        labels={<NodeState node={node} />}
        actions={
          <>
            <QuickAction target={target} name={cordoned ? "uncordon" : "cordon"} />
            <ActionMenu targets={[target]} />
          </>
        }
      />
      <TabPanes
        label={node.name}
        panes={[
          { id: "summary", label: "tab.summary", content: () => <Summary node={node} /> },
          { id: "monitor", label: "tab.monitor", content: () => <Monitor node={node} /> },
          { id: "events", label: "tab.events", content: () => <ObjectActivity target={target} /> },
          {
            id: "permissions",
            label: "tab.permissions",
            content: () => <AccessPane target={target} />,
          },
        ]}
      />
    </>
  );
}

export default function NodePage() {
  return (
    <Loaded kinds={["node", "gpu", "partition"]} optional={["allocation", "session"]}>
      <Workspace />
    </Loaded>
  );
}
