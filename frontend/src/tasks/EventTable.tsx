import { Card, CardBody } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Event } from "../api/client";
import { dateTime, humanize } from "../format";

export function EventTable({ events }: { events: Event[] }) {
  return (
    <Card>
      <CardBody>
        {events.length === 0 ? (
          <p className="bb-quiet">No recent events.</p>
        ) : (
          <Table variant="compact" aria-label="Events">
            <Thead>
              <Tr>
                <Th width={20}>Time</Th>
                <Th width={20}>Kind</Th>
                <Th width={10}>Actor</Th>
                <Th>Message</Th>
              </Tr>
            </Thead>
            <Tbody>
              {events.map((e) => (
                <Tr key={e.id}>
                  <Td dataLabel="Time">{dateTime(e.created_at)}</Td>
                  <Td dataLabel="Kind">{humanize(e.kind)}</Td>
                  <Td dataLabel="Actor">{e.actor}</Td>
                  <Td dataLabel="Message">{e.message}</Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
      </CardBody>
    </Card>
  );
}
