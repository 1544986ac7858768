// Workspace of an allocation.
import { Alert, ClipboardCopy, List, ListItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ActionMenu } from "../actions/ActionMenu";
import { QuickAction } from "../actions/QuickAction";
import { AccessPane } from "../admin/AccessPane";
import { AllocationState } from "../allocations/AllocationTable";
import { Resizing } from "../allocations/Resizing";
import { SessionTable } from "../allocations/SessionTable";
import { WithdrawResize } from "../allocations/WithdrawResize";
import { Suspended } from "../allocations/Suspended";
import { type Allocation, type Schema, api, unwrap } from "../api/client";
import { allocationsById, sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { type Metric, MetricsPanel } from "../charts/MetricsPanel";
import { RECEIVED_METRIC } from "../charts/receivedMetric";
import { PartitionBar } from "../inventory/PartitionBar";
import { dateTime, gib } from "../model/format";
import type { Target } from "../model/kinds";
import { computeText, drainText, receivedText, withSessions } from "../model/computeShare";
import { allocationName, hasEnded, maxSessionsText, requestText } from "../model/allocationNames";
import { ObjectActivity } from "../tasks/ObjectActivity";
import { coded, t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties, type Property, labelText } from "../ui/Properties";
import { Loaded, MissingPage, QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const GIB = 2 ** 30;
const METRICS: readonly Metric[] = [
  {
    name: "memory_bytes",
    label: "metric.memory",
    unit: "GiB",
    tone: "--bb-teal",
    digits: 2,
    scale: GIB,
  },
  { name: "sessions", label: "metric.sessions", unit: "", tone: "--bb-tone-2" },
  RECEIVED_METRIC,
];

function expectedStart(e: Schema<"Explanation">): string {
  if (e.expected_start_at) return t("allocation.expected", { time: dateTime(e.expected_start_at) });
  const reason = e.expected_start_reason;
  return reason && t("allocation.unexpected", { reason });
}

function Waiting({ allocation: a }: { allocation: Allocation }) {
  const explanation = useQuery({
    queryKey: ["detail", "explanation", a.id],
    queryFn: () =>
      api
        .GET("/api/v1/allocations/{allocation_id}/explanation", {
          params: { path: { allocation_id: a.id } },
        })
        .then(unwrap),
    refetchInterval: 5_000,
  });
  return (
    <Panel
      title={t("allocation.waiting")}
      actions={a.resize?.state === "queued" && <WithdrawResize allocation={a} />}
    >
      <QueryState query={explanation}>
        {(e) => (
          <div className="bb-stack">
            <Alert variant="warning" isInline component="p" title={e.reason || a.waiting_reason}>
              {expectedStart(e)}
            </Alert>
            {e.alternatives.length > 0 && (
              <>
                <h3>{t("allocation.alternatives")}</h3>
                <List>
                  {e.alternatives.map((x) => (
                    <ListItem key={x.difference}>{x.difference}</ListItem>
                  ))}
                </List>
              </>
            )}
          </div>
        )}
      </QueryState>
    </Panel>
  );
}

function ends(a: Allocation): string {
  if (a.ended_at) return dateTime(a.ended_at);
  if (a.evict_at) return dateTime(a.evict_at);
  if (!a.lifetime_seconds || !a.active_at) return "–";
  return dateTime(
    new Date(new Date(a.active_at).getTime() + a.lifetime_seconds * 1000).toISOString(),
  );
}

const properties = (a: Allocation): Property[] => [
  [t("allocation.owner"), a.owner],
  [t("allocation.project"), a.project],
  [t("allocation.requested"), requestText(a)],
  [t("allocation.maxSessions"), maxSessionsText(a)],
  [t("compute.title"), computeText(a)],
  [t("metric.received"), receivedText(a)],
  [t("session.longestDrain"), drainText(a)],
  [t("allocation.hold"), coded("hold", a.hold ?? "heartbeat", a.hold ?? "")],
  [t("allocation.endsAt"), ends(a)],
  [t("allocation.priority"), String(a.priority ?? 50)],
  [t("field.labels"), labelText(a.labels)],
  [t("allocation.since"), dateTime(a.created_at)],
  ...(a.end_reason ? ([[t("allocation.endReason"), a.end_reason]] as Property[]) : []),
];

function Where({ allocation: a }: { allocation: Allocation }) {
  const gpus = useRows("gpu");
  return (
    <Panel title={t("allocation.where")}>
      {a.partitions.map((p) => {
        const gpu = gpus.find((g) => g.id === p.gpu_id);
        return (
          <div className="bb-gpurow" key={p.id}>
            <Link to={`/gpus/${p.gpu_id}`} className="bb-gpurow__name">
              {p.node} GPU {p.gpu_index}
              <span className="bb-quiet">
                {p.compute_percent} %, {gib(p.memory_bytes)}
              </span>
            </Link>
            {gpu && <PartitionBar gpu={gpu} />}
          </div>
        );
      })}
    </Panel>
  );
}

function Summary({ allocation: a }: { allocation: Allocation }) {
  const sessions = sessionsByAllocation(useRows("session")).get(a.id) ?? [];
  return (
    <>
      {(a.state === "queued" || a.resize?.state === "queued") && <Waiting allocation={a} />}
      {a.resize && a.resize.state !== "queued" && <Resizing resize={a.resize} />}
      {a.suspension && <Suspended suspension={a.suspension} />}
      {a.partitions.length > 0 && <Where allocation={a} />}
      <Panel title={t("work.properties")}>
        <Properties properties={properties(withSessions(a, sessions))} />
      </Panel>
      {!hasEnded(a) && (
        <Panel title={t("allocation.run")}>
          <ClipboardCopy
            isReadOnly
            hoverTip={t("common.copy")}
            clickTip={t("common.copied")}
            textAriaLabel={t("common.command")}
          >
            {`busbar allocation attach ${a.id} -- python train.py`}
          </ClipboardCopy>
        </Panel>
      )}
      <SessionTable sessions={sessions} />
    </>
  );
}

function Monitor({ allocation: a }: { allocation: Allocation }) {
  return a.partitions.map((p) => (
    <MetricsPanel
      key={p.id}
      kind="partitions"
      id={p.id}
      title={t("chart.of", { name: `${p.node} GPU ${p.gpu_index}` })}
      metrics={METRICS}
    />
  ));
}

function AllocationHeader({ allocation: a, target }: { allocation: Allocation; target: Target }) {
  return (
    <PageHeader
      title={target.name}
      trail={[[t("nav.allocations"), "/allocations"]]}
      labels={<AllocationState state={a.state ?? ""} />}
      actions={
        <>
          {!hasEnded(a) && <QuickAction target={target} name="release" />}
          {a.state === "active" && <QuickAction target={target} name="resize" />}
          {a.state === "suspended" && <QuickAction target={target} name="resume" />}
          <ActionMenu targets={[target]} />
        </>
      }
    />
  );
}

const panesOf = (a: Allocation, target: Target): Pane[] => [
  { id: "summary", label: "tab.summary", content: () => <Summary allocation={a} /> },
  { id: "monitor", label: "tab.monitor", content: () => <Monitor allocation={a} /> },
  { id: "events", label: "tab.events", content: () => <ObjectActivity target={target} /> },
  { id: "permissions", label: "tab.permissions", content: () => <AccessPane target={target} /> },
];

function Workspace() {
  const { id } = useParams({ strict: false }) as { id: string };
  const live = allocationsById(useRows("allocation")).get(id);
  const stored = useQuery({
    queryKey: ["detail", "allocation", id],
    queryFn: () =>
      api
        .GET("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id: id } } })
        .then(unwrap),
    enabled: !live,
    retry: false,
  });
  const allocation = live ?? stored.data;
  if (!allocation)
    return stored.error ? (
      <MissingPage what={t("kind.allocations")} />
    ) : (
      <QueryState query={stored}>{() => null}</QueryState>
    );
  const target = { kind: "allocations" as const, id, name: allocationName(allocation) };
  return (
    <>
      <AllocationHeader allocation={allocation} target={target} />
      <TabPanes label={target.name} panes={panesOf(allocation, target)} />
    </>
  );
}

export default function AllocationPage() {
  return (
    <Loaded kinds={["allocation", "session", "gpu", "partition"]}>
      <Workspace />
    </Loaded>
  );
}
