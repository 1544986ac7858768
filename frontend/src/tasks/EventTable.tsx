import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Event } from "../api/client";
import { dateTime, humanize } from "../model/format";
import { PathLink } from "../tables/ObjectLink";
import { coded, t } from "../text/text";

export const eventName = (e: Event) => coded("event", e.kind, humanize(e.kind));

export function EventTable({ events, label }: { events: Event[]; label?: string }) {
  if (events.length === 0) return <p className="bb-quiet">{t("event.none")}</p>;
  return (
    <Table variant="compact" aria-label={label ?? t("nav.events")}>
      <Thead>
        <Tr>
          <Th width={20}>{t("event.time")}</Th>
          <Th width={15}>{t("event.kind")}</Th>
          <Th width={15}>{t("event.object")}</Th>
          <Th width={10}>{t("event.actor")}</Th>
          <Th>{t("event.message")}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {events.map((e) => (
          <Tr key={e.id}>
            <Td dataLabel={t("event.time")}>{dateTime(e.created_at)}</Td>
            <Td dataLabel={t("event.kind")}>{eventName(e)}</Td>
            <Td dataLabel={t("event.object")}>
              <PathLink path={e.path} />
            </Td>
            <Td dataLabel={t("event.actor")}>{e.actor}</Td>
            <Td dataLabel={t("event.message")}>{e.message}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
