// Table of alarms, in a page with filter and CSV or plain in the dock.
import { Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { Link } from "@tanstack/react-router";
import type { Alarm } from "../api/client";
import { dateTime } from "../model/format";
import { type Column, DataTable } from "../tables/DataTable";
import { ObjectLink, lastOf } from "../tables/ObjectLink";
import { coded, t } from "../text/text";
import { StateBlock } from "../ui/states";
import { AcknowledgeButton } from "./AcknowledgeButton";
import { STATUS, rankOf } from "./alarms";

export function SeverityLabel({ alarm }: { alarm: Pick<Alarm, "severity"> }) {
  return (
    <Label isCompact status={STATUS[alarm.severity]}>
      {coded("severity", alarm.severity, alarm.severity)}
    </Label>
  );
}

/** Link to the object of an alarm. */
export function AlarmObject({ alarm }: { alarm: Alarm }) {
  const place = lastOf(alarm.path);
  if (!place) return t("alarm.appliance");
  return <ObjectLink target={{ ...place, name: alarm.object_name }} />;
}

const stateText = (a: Alarm) => coded("alarmState", a.state ?? "", a.state ?? "");
const COLUMNS: readonly Column<Alarm>[] = [
  {
    id: "severity",
    isShort: true,
    label: "alarm.severity",
    value: (a) => `${rankOf(a)} ${a.severity}`,
    cell: (a) => <SeverityLabel alarm={a} />,
  },
  {
    id: "name",
    isIdentity: true,
    label: "alarm.name",
    value: (a) => a.name,
    cell: (a) => (
      <Link to={`/alarms/${a.id}`}>
        <bdi>{a.name}</bdi>
      </Link>
    ),
  },
  {
    id: "object",
    isShort: true,
    label: "alarm.object",
    value: (a) => a.object_name,
    cell: (a) => <AlarmObject alarm={a} />,
  },
  { id: "state", isShort: true, label: "alarm.state", value: stateText },
  { id: "message", label: "alarm.message", value: (a) => a.message },
  {
    id: "raised",
    isShort: true,
    label: "alarm.raised",
    value: (a) => a.raised_at,
    cell: (a) => dateTime(a.raised_at),
  },
];

interface AlarmTableProps {
  alarms: Alarm[];
  label: string;
  /** Without filter and sorting. */
  isPlain?: boolean;
  isPast?: boolean;
}

function PlainTable({ alarms, label }: Pick<AlarmTableProps, "alarms" | "label">) {
  return (
    <Table variant="compact" aria-label={label}>
      <Thead>
        <Tr>
          {COLUMNS.map((c) => (
            <Th key={c.id}>{t(c.label)}</Th>
          ))}
          <Th screenReaderText={t("common.actions")} />
        </Tr>
      </Thead>
      <Tbody>
        {alarms.map((a) => (
          <Tr key={a.id}>
            {COLUMNS.map((c) => (
              <Td key={c.id} dataLabel={t(c.label)}>
                {c.cell?.(a) ?? c.value(a)}
              </Td>
            ))}
            <Td>
              <AcknowledgeButton alarm={a} isLink />
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

export function AlarmTable({ alarms, label, isPlain = false, isPast = false }: AlarmTableProps) {
  const none = t(isPast ? "alarm.nonePast" : "alarm.none");
  if (isPlain && alarms.length === 0) return <p className="bb-quiet">{none}</p>;
  if (isPlain) return <PlainTable alarms={alarms} label={label} />;
  return (
    <DataTable
      table="alarms"
      label={label}
      rows={alarms}
      columns={COLUMNS}
      rowEnd={(a) => <AcknowledgeButton alarm={a} isLink />}
      empty={<StateBlock level="h3" title={none} />}
    />
  );
}
