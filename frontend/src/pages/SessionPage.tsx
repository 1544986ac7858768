// Workspace of a session: a program that uses an allocation.
import { Label } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { RefusedCalls } from "../allocations/SessionTable";
import { type Session, api, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { type Metric, MetricsPanel } from "../charts/MetricsPanel";
import { RECEIVED_METRIC } from "../charts/receivedMetric";
import { dateTime, humanize, number, size } from "../model/format";
import { computeText, drainText, receivedText } from "../model/computeShare";
import { isolationText, layersOf } from "../model/isolation";
import { ObjectActivity } from "../tasks/ObjectActivity";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties, type Property } from "../ui/Properties";
import { Loaded, MissingPage, QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const [MIB, GIB] = [2 ** 20, 2 ** 30];
const METRICS: readonly Metric[] = [
  {
    name: "memory_bytes",
    label: "metric.memory",
    unit: "GiB",
    tone: "--bb-teal",
    digits: 2,
    scale: GIB,
  },
  { name: "launches", label: "metric.launches", unit: "/s", tone: "--bb-copper", isCounter: true },
  {
    name: "bytes_in",
    label: "metric.bytesIn",
    unit: "MiB/s",
    tone: "--bb-tone-1",
    digits: 2,
    scale: MIB,
    isCounter: true,
  },
  {
    name: "bytes_out",
    label: "metric.bytesOut",
    unit: "MiB/s",
    tone: "--bb-tone-2",
    digits: 2,
    scale: MIB,
    isCounter: true,
  },
  RECEIVED_METRIC,
];

const properties = (s: Session): Property[] => [
  [
    t("session.allocation"),
    <Link key="a" to={`/allocations/${s.allocation_id}`}>
      {s.allocation_id.slice(-8)}
    </Link>,
  ],
  [t("session.node"), s.node],
  [t("session.from"), s.client_address],
  [t("session.process"), String(s.pid)],
  [t("session.clientProcess"), String(s.client_pid)],
  [t("compute.title"), computeText(s)],
  [t("metric.received"), receivedText(s)],
  [t("session.longestDrain"), drainText(s)],
  [t("session.memory"), size(s.memory_bytes ?? 0)],
  [t("session.kernels"), number(s.launches ?? 0)],
  [t("session.received"), size(s.bytes_in ?? 0)],
  [t("session.sent"), size(s.bytes_out ?? 0)],
  [t("session.since"), dateTime(s.opened_at)],
  ...(s.end_reason ? ([[t("allocation.endReason"), s.end_reason]] as Property[]) : []),
];

function Summary({ session: s }: { session: Session }) {
  return (
    <>
      <Panel title={t("work.properties")}>
        <Properties properties={properties(s)} />
      </Panel>
      <Panel title={t("session.layers")} detail={isolationText(s)}>
        <Properties properties={layersOf(s).map(([name, how]) => [humanize(name), how])} />
      </Panel>
    </>
  );
}

function SessionHeader({ session: s }: { session: Session }) {
  return (
    <PageHeader
      title={s.program || s.id.slice(0, 8)}
      trail={[
        [t("nav.allocations"), "/allocations"],
        [s.allocation_id.slice(-8), `/allocations/${s.allocation_id}`],
      ]}
      labels={
        <>
          <Label isCompact status={s.state === "running" ? "success" : "info"}>
            {s.state}
          </Label>
          <RefusedCalls names={s.refused_calls} />
        </>
      }
    />
  );
}

const panesOf = (s: Session): Pane[] => [
  { id: "summary", label: "tab.summary", content: () => <Summary session={s} /> },
  {
    id: "monitor",
    label: "tab.monitor",
    content: () => (
      <MetricsPanel
        kind="sessions"
        id={s.id}
        title={t("chart.of", { name: s.program })}
        metrics={METRICS}
      />
    ),
  },
  {
    id: "events",
    label: "tab.events",
    content: () => <ObjectActivity target={{ kind: "sessions", id: s.id }} />,
  },
];

function Workspace() {
  const { id } = useParams({ strict: false }) as { id: string };
  const live = useRows("session").find((s) => s.id === id);
  const stored = useQuery({
    queryKey: ["detail", "session", id],
    queryFn: () =>
      api
        .GET("/api/v1/sessions/{session_id}", { params: { path: { session_id: id } } })
        .then(unwrap),
    enabled: !live,
    retry: false,
  });
  const session = live ?? stored.data;
  if (!session)
    return stored.error ? (
      <MissingPage what={t("kind.sessions")} />
    ) : (
      <QueryState query={stored}>{() => null}</QueryState>
    );
  return (
    <>
      <SessionHeader session={session} />
      <TabPanes label={session.program} panes={panesOf(session)} />
    </>
  );
}

export default function SessionPage() {
  return (
    <Loaded kinds={["session"]}>
      <Workspace />
    </Loaded>
  );
}
