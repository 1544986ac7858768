import { Card, CardBody, CardTitle, Label, Tooltip } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Session } from "../api/client";
import { dateTime, gib, humanize } from "../format";

/** Isolation layers in force; the tooltip lists the others with their reasons. */
function Isolation({ session }: { session: Session }) {
  const layers = Object.entries((session.isolation ?? {}) as Record<string, string>);
  const enforced = layers.filter(([, how]) => how === "enforced");
  return (
    <Tooltip content={layers.map(([name, how]) => `${humanize(name)}: ${how}`).join(". ")}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the tooltip must be reachable by keyboard */}
      <span tabIndex={0}>
        {enforced.length} of {layers.length} enforced
      </span>
    </Tooltip>
  );
}

/** CUDA functions that the program called and that Busbar does not support. */
function RefusedCalls({ names }: { names: string[] }) {
  if (names.length === 0) return null;
  return (
    <Tooltip content={`Not supported yet: ${names.join(", ")}`}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the tooltip must be reachable by keyboard */}
      <span tabIndex={0}>
        <Label color="orange" isCompact>
          {names.length === 1 ? names[0] : `${names.length} calls not supported`}
        </Label>
      </span>
    </Tooltip>
  );
}

export function SessionTable({ sessions }: { sessions: Session[] }) {
  return (
    <Card>
      <CardTitle component="h2">Running programs</CardTitle>
      <CardBody>
        {sessions.length === 0 ? (
          <p className="bb-quiet">
            None. Start one with <code>busbar run -p 25 -- python train.py</code>
          </p>
        ) : (
          <Table variant="compact" aria-label="Running programs">
            <Thead>
              <Tr>
                <Th>Program</Th>
                <Th>From</Th>
                <Th>Memory</Th>
                <Th>Kernels</Th>
                <Th>Isolation</Th>
                <Th>Since</Th>
              </Tr>
            </Thead>
            <Tbody>
              {sessions.map((s) => (
                <Tr key={s.id}>
                  <Td dataLabel="Program">
                    {s.program} <RefusedCalls names={s.refused_calls} />
                  </Td>
                  <Td dataLabel="From">{s.client_address}</Td>
                  <Td dataLabel="Memory">{gib(s.memory_bytes ?? 0)}</Td>
                  <Td dataLabel="Kernels" data-launches={s.launches}>
                    {(s.launches ?? 0).toLocaleString()}
                  </Td>
                  <Td dataLabel="Isolation">
                    <Isolation session={s} />
                  </Td>
                  <Td dataLabel="Since">{dateTime(s.opened_at)}</Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
      </CardBody>
    </Card>
  );
}
