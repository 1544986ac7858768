// Workspace of a pool.
import { useQuery } from "@tanstack/react-query";
import { poolProperties } from "../actions/poolFields";
import { AccessPane } from "../admin/AccessPane";
import { Detail } from "../admin/useDetail";
import { AllocationTable } from "../allocations/AllocationTable";
import { type Pool, type Schema, api, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { GpuTable } from "../fleet/GpuTable";
import { hasEnded } from "../model/allocationNames";
import { ObjectLink, useNames } from "../tables/ObjectLink";
import { ObjectActivity } from "../tasks/ObjectActivity";
import { counted, t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Properties, type Property } from "../ui/Properties";
import { Loaded, Permitted, QueryState } from "../ui/states";

const properties = (p: Pool): Property[] => [
  ...poolProperties(p),
  [t("simulated.label"), t(p.simulated ? "common.yes" : "common.no")],
];

function Moves({ plan }: { plan: Schema<"Defragmentation"> }) {
  const nameOf = useNames();
  const link = (kind: "gpus" | "allocations", id: string) => (
    <ObjectLink target={{ kind, id, name: nameOf(kind, id) || id.slice(-8) }} />
  );
  return (
    <>
      <p>{t("pool.defragText", { now: plan.whole_gpus, after: plan.whole_gpus_after })}</p>
      <ul>
        {plan.moves.map((m) => (
          <li key={m.allocation_id}>
            {link("allocations", m.allocation_id)}: {link("gpus", m.from_gpu_id)} →{" "}
            {link("gpus", m.to_gpu_id)}
          </li>
        ))}
      </ul>
    </>
  );
}

function Summary({ pool }: { pool: Pool }) {
  const gpus = useRows("gpu").filter((g) => g.pool === pool.name);
  const allocations = useRows("allocation").filter(
    (a) => !hasEnded(a) && (a.placed_pool ?? a.pool) === pool.name,
  );
  const plan = useQuery({
    queryKey: ["detail", "defragmentation", pool.id],
    queryFn: () =>
      api
        .GET("/api/v1/pools/{pool_id}/defragmentation", { params: { path: { pool_id: pool.id } } })
        .then(unwrap),
  });
  return (
    <>
      <Panel title={t("pool.defrag")}>
        <QueryState query={plan}>{(found) => <Moves plan={found} />}</QueryState>
      </Panel>
      <Panel title={t("node.gpus")} detail={counted("count.gpu", gpus.length)}>
        <GpuTable gpus={gpus} />
      </Panel>
      <Permitted kind="allocation">
        <AllocationTable title={t("allocation.current")} allocations={allocations} />
      </Permitted>
    </>
  );
}

export default function PoolPage() {
  return (
    <Loaded kinds={["gpu", "pool", "partition"]} optional={["allocation"]}>
      <Detail
        list="pools"
        kind="pools"
        name={(p) => p.name}
        trail={[[t("nav.pools"), "/pools"]]}
        panes={(pool, target) => [
          { id: "summary", label: "tab.summary", content: () => <Summary pool={pool} /> },
          {
            id: "configure",
            label: "tab.configure",
            content: () => (
              <Panel title={t("work.properties")}>
                <Properties properties={properties(pool)} />
              </Panel>
            ),
          },
          { id: "events", label: "tab.events", content: () => <ObjectActivity target={target} /> },
          {
            id: "permissions",
            label: "tab.permissions",
            content: () => <AccessPane target={target} />,
          },
        ]}
      />
    </Loaded>
  );
}
