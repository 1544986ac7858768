import { Card, CardBody, CardTitle, Label } from "@patternfly/react-core";
import type { Allocation } from "../api/client";
import { dateTime } from "../model/format";
import { allocationName, hasEnded, requestText } from "../model/allocationNames";
import { type Column, DataTable } from "../tables/DataTable";
import { coded, t } from "../text/text";
import { ReleaseButton } from "./ReleaseButton";

const STATUS = {
  active: "success",
  preparing: "info",
  queued: "warning",
  suspended: "warning",
  failed: "danger",
} as const;

export function AllocationState({ state }: { state: string }) {
  const status = STATUS[state as keyof typeof STATUS];
  return (
    <Label isCompact {...(status ? { status } : { color: "grey" })}>
      {coded("allocationState", state, state)}
    </Label>
  );
}

/** Where the allocation is, why it waits, or why it ended. */
export const placeText = (a: Allocation): string =>
  a.partitions.map((p) => `${p.node} GPU ${p.gpu_index}`).join(", ") ||
  (hasEnded(a) ? (a.end_reason ?? "") : (a.waiting_reason ?? ""));

const COLUMNS: Column<Allocation>[] = [
  { id: "name", label: "allocation.name", value: allocationName },
  {
    id: "state",
    label: "allocation.state",
    value: (a) => a.state ?? "",
    cell: (a) => <AllocationState state={a.state ?? ""} />,
  },
  { id: "owner", label: "allocation.owner", value: (a) => a.owner },
  { id: "project", label: "allocation.project", value: (a) => a.project },
  { id: "request", label: "allocation.requested", value: requestText },
  { id: "place", label: "allocation.where", value: placeText },
  {
    id: "since",
    label: "allocation.since",
    value: (a) => a.created_at ?? "",
    cell: (a) => dateTime(a.created_at),
  },
];

export function AllocationTable({
  allocations,
  title,
}: {
  allocations: Allocation[];
  title: string;
}) {
  return (
    <Card>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        <DataTable
          table="allocations"
          label={title}
          rows={allocations}
          columns={COLUMNS}
          hasBulk={allocations.some((a) => !hasEnded(a))}
          target={(a) => ({ kind: "allocations", id: a.id, name: allocationName(a) })}
          rowEnd={(a) => !hasEnded(a) && <ReleaseButton allocation={a} />}
          empty={<p className="bb-quiet">{t("allocation.none")}</p>}
        />
      </CardBody>
    </Card>
  );
}
