// Workspace of a project.
import { AccessPane } from "../admin/AccessPane";
import { BindingTable } from "../admin/BindingTable";
import { Detail } from "../admin/useDetail";
import { AllocationTable } from "../allocations/AllocationTable";
import type { RowOf } from "../api/lists";
import { useRows } from "../api/queries";
import { type Metric, MetricsPanel } from "../charts/MetricsPanel";
import { hasEnded } from "../model/allocationNames";
import { dateTime } from "../model/format";
import type { Target } from "../model/kinds";
import { ObjectActivity } from "../tasks/ObjectActivity";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";
import { Loaded } from "../ui/states";
import type { Pane } from "../ui/TabPanes";

const METRICS: readonly Metric[] = [
  {
    name: "allocated_percent",
    label: "metric.allocated",
    unit: "GPU",
    tone: "--bb-copper",
    digits: 2,
    scale: 100,
  },
  {
    name: "allocated_memory_bytes",
    label: "capacity.allocated",
    unit: "GiB",
    tone: "--bb-teal",
    digits: 1,
    scale: 2 ** 30,
  },
  { name: "sessions", label: "metric.sessions", unit: "", tone: "--bb-tone-2" },
  { name: "queued_allocations", label: "metric.queued", unit: "", tone: "--bb-tone-4" },
];

function Allocations({ project }: { project: string }) {
  const own = useRows("allocation").filter((a) => a.project === project);
  return (
    <>
      <AllocationTable
        title={t("allocation.current")}
        allocations={own.filter((a) => !hasEnded(a))}
      />
      <AllocationTable title={t("allocation.ended")} allocations={own.filter(hasEnded)} />
    </>
  );
}

type Project = RowOf<"projects">;

function Summary({ project: p }: { project: Project }) {
  return (
    <>
      <Panel title={t("work.properties")}>
        <Properties
          properties={[
            [t("field.department"), p.department],
            [t("node.since"), dateTime(p.created_at)],
          ]}
        />
      </Panel>
      <Allocations project={p.name} />
    </>
  );
}

function Permissions({ project, target }: { project: Project; target: Target }) {
  return (
    <>
      <BindingTable filter={{ project: project.name }} />
      <AccessPane target={target} />
    </>
  );
}

const panesOf = (p: Project, target: Target): Pane[] => [
  { id: "summary", label: "tab.summary", content: () => <Summary project={p} /> },
  {
    id: "monitor",
    label: "tab.monitor",
    content: () => (
      <MetricsPanel
        kind="projects"
        id={p.id}
        title={t("chart.of", { name: p.name })}
        metrics={METRICS}
      />
    ),
  },
  { id: "events", label: "tab.events", content: () => <ObjectActivity target={target} /> },
  {
    id: "permissions",
    label: "tab.permissions",
    content: () => <Permissions project={p} target={target} />,
  },
];

export default function ProjectPage() {
  return (
    <Loaded kinds={["allocation"]}>
      <Detail
        list="projects"
        kind="projects"
        name={(p) => p.name}
        trail={[[t("nav.pools"), "/pools?tab=projects"]]}
        panes={panesOf}
      />
    </Loaded>
  );
}
