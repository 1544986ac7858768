import { Card, CardBody } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Event } from "../api/client";
import { dateTime, words } from "../format";

export function EventTable({ events }: { events: Event[] }) {
  return (
    <Card>
      <CardBody>
        {events.length === 0 ? (
          <p className="bb-quiet">Nothing happened here lately.</p>
        ) : (
          <Table variant="compact" aria-label="Events">
            <Thead>
              <Tr>
                <Th width={20}>When</Th>
                <Th width={20}>What</Th>
                <Th width={10}>Who</Th>
                <Th>Message</Th>
              </Tr>
            </Thead>
            <Tbody>
              {events.map((e) => (
                <Tr key={e.id}>
                  <Td dataLabel="When">{dateTime(e.created_at)}</Td>
                  <Td dataLabel="What">{words(e.kind)}</Td>
                  <Td dataLabel="Who">{e.actor}</Td>
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
