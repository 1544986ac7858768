// Lists the allocations that an action would end, with their programs, users and ages.
import { Alert, List, ListItem } from "@patternfly/react-core";
import type { Allocation, Session } from "../api/client";
import { allocationsById, gpusByNode, partitionsByGpu, sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { ago } from "../model/format";
import { allocationName } from "../model/allocationNames";
import type { Actionable } from "../model/kinds";
import { type Key, coded, counted, t } from "../text/text";

const SHOWN = 8;

/** Allocations that live on the targets. */
function useAffected(targets: Actionable[]): Allocation[] {
  const byId = allocationsById(useRows("allocation"));
  const byGpu = partitionsByGpu(useRows("partition"));
  const byNode = gpusByNode(useRows("gpu"));
  const ids = new Set<string>();
  for (const x of targets) {
    if (x.kind === "allocations") ids.add(x.id);
    const gpus = x.kind === "nodes" ? (byNode.get(x.id) ?? []).map((g) => g.id) : [x.id];
    for (const gpu of gpus) for (const p of byGpu.get(gpu) ?? []) ids.add(p.allocation_id);
  }
  return [...ids].flatMap((id) => byId.get(id) ?? []);
}

const programText = (s: Session) =>
  t("loss.program", { program: s.program || "?", host: s.client_address, ago: ago(s.opened_at) });

function Losses({ targets }: { targets: Actionable[] }) {
  const allocations = useAffected(targets);
  const sessions = sessionsByAllocation(useRows("session"));
  const programs = allocations.flatMap((a) => (sessions.get(a.id) ?? []).map((s) => ({ a, s })));
  if (programs.length === 0)
    return <p>{t(allocations.length > 0 ? "loss.noPrograms" : "loss.nothing")}</p>;
  return (
    <Alert
      variant="danger"
      isInline
      component="p"
      title={counted("loss.programs", programs.length)}
    >
      <List>
        {programs.slice(0, SHOWN).map(({ a, s }) => (
          <ListItem key={s.id}>
            <b>{programText(s)}</b> {t("loss.of", { name: allocationName(a), owner: a.owner })}
          </ListItem>
        ))}
      </List>
      {programs.length > SHOWN && <p>{counted("loss.more", programs.length - SHOWN)}</p>}
    </Alert>
  );
}

export function LossOf({ action, targets }: { action: string; targets: Actionable[] }) {
  const kind = targets[0]?.kind ?? "allocations";
  const usesGpus = kind === "allocations" || kind === "nodes";
  return (
    <>
      <p>{coded("loss.text", `${kind}.${action}` as Key, t("loss.final"))}</p>
      {usesGpus && <Losses targets={targets} />}
    </>
  );
}
