import { Label, Tooltip } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import type { Session } from "../api/client";
import { allocationsById } from "../api/indexes";
import { useRows } from "../api/queries";
import { dateTime, number, size } from "../model/format";
import { isolationText } from "../model/isolation";
import { allocationName } from "../model/allocationNames";
import { type Column, DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";

/** CUDA functions that the program called and that Busbar does not support. */
export function RefusedCalls({ names }: { names: string[] }) {
  if (names.length === 0) return null;
  const text = t("session.unsupported", { names: names.join(", ") });
  return (
    <Tooltip content={text}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the tooltip must be reachable by keyboard */}
      <span tabIndex={0}>
        <Label color="orange" isCompact>
          {names.length === 1 ? names[0] : t("session.unsupportedCount", { count: names.length })}
        </Label>
      </span>
    </Tooltip>
  );
}

interface Row extends Session {
  allocationName: string;
  owner: string;
}

const COLUMNS: Column<Row>[] = [
  {
    id: "program",
    label: "session.program",
    value: (s) => s.program,
    cell: (s) => (
      <>
        <Link to={`/sessions/${s.id}`}>
          <bdi>{s.program || s.id.slice(0, 8)}</bdi>
        </Link>{" "}
        <RefusedCalls names={s.refused_calls} />
      </>
    ),
  },
  {
    id: "allocation",
    label: "session.allocation",
    value: (s) => s.allocationName,
    cell: (s) => (
      <Link to={`/allocations/${s.allocation_id}`}>
        <bdi>{s.allocationName}</bdi>
      </Link>
    ),
  },
  { id: "owner", label: "session.owner", value: (s) => s.owner },
  { id: "from", label: "session.from", value: (s) => s.client_address },
  {
    id: "memory",
    label: "session.memory",
    value: (s) => s.memory_bytes ?? 0,
    cell: (s) => size(s.memory_bytes ?? 0),
  },
  {
    id: "kernels",
    label: "session.kernels",
    value: (s) => s.launches ?? 0,
    cell: (s) => <span data-launches={s.launches}>{number(s.launches ?? 0)}</span>,
  },
  { id: "isolation", label: "session.isolation", value: isolationText },
  {
    id: "since",
    label: "session.since",
    value: (s) => s.opened_at,
    cell: (s) => dateTime(s.opened_at),
  },
];

export function SessionTable({ sessions }: { sessions: Session[] }) {
  const allocations = allocationsById(useRows("allocation"));
  const rows = sessions.map((s): Row => {
    const allocation = allocations.get(s.allocation_id);
    return {
      ...s,
      allocationName: allocation ? allocationName(allocation) : s.allocation_id.slice(-8),
      owner: allocation?.owner ?? "",
    };
  });
  return (
    <Panel title={t("session.title")}>
      <DataTable
        table="sessions"
        label={t("session.title")}
        rows={rows}
        columns={COLUMNS}
        empty={
          <p className="bb-quiet">
            {t("session.none")} <code>busbar run -p 25 -- python train.py</code>
          </p>
        }
      />
    </Panel>
  );
}
