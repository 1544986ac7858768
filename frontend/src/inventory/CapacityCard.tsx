// Capacity table by pool, node, site or model. Usage is measured, so it reloads every 10 s.
import {
  Card,
  CardBody,
  CardHeader,
  CardTitle,
  ToggleGroup,
  ToggleGroupItem,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Capacity, unwrap } from "../api/client";
import { gib } from "../format";

const REFRESH_MS = 10_000;
const GROUPS = ["pool", "node", "site", "model"] as const;
type Group = (typeof GROUPS)[number];
const COLUMNS = ["capacity", "allocatable", "allocated", "used", "idle"] as const;
const COLUMN_HELP: Record<(typeof COLUMNS)[number], string> = {
  capacity: "All GPUs",
  allocatable: "On ready and reachable nodes and in a pool",
  allocated: "Granted to allocations",
  used: "Measured utilisation",
  idle: "Allocated but not used",
};

const gpus = (value: number) => String(Math.round(value * 10) / 10);

function CapacityRow({ row, isTotal }: { row: Capacity; isTotal?: boolean }) {
  return (
    <Tr className={isTotal ? "bb-total" : ""}>
      <Th scope="row" dataLabel="Name">
        {row.name}
      </Th>
      {COLUMNS.map((a) => (
        <Td key={a} dataLabel={a}>
          {gpus(row.gpus[a])} <span className="bb-quiet">{gib(row.memory_bytes[a])}</span>
        </Td>
      ))}
    </Tr>
  );
}

export function CapacityCard() {
  const [by, setBy] = useState<Group>("pool");
  const { data, error } = useQuery({
    queryKey: ["capacity", by],
    queryFn: () => api.GET("/api/v1/capacity", { params: { query: { by } } }).then(unwrap),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
  return (
    <Card>
      <CardHeader
        actions={{
          actions: (
            <ToggleGroup aria-label="Capacity by" isCompact>
              {GROUPS.map((g) => (
                <ToggleGroupItem
                  key={g}
                  text={g}
                  buttonId={`capacity-${g}`}
                  isSelected={g === by}
                  onChange={() => setBy(g)}
                />
              ))}
            </ToggleGroup>
          ),
        }}
      >
        <CardTitle component="h2">Capacity</CardTitle>
      </CardHeader>
      <CardBody>
        {error && <p className="bb-quiet">{error.message}</p>}
        {data && (
          <Table variant="compact" aria-label="Capacity, in GPUs and memory">
            <Thead>
              <Tr>
                <Th>{by}</Th>
                {COLUMNS.map((a) => (
                  <Th key={a} info={{ tooltip: COLUMN_HELP[a] }}>
                    {a}
                  </Th>
                ))}
              </Tr>
            </Thead>
            <Tbody>
              {data.items.map((row) => (
                <CapacityRow key={row.id ?? row.name} row={row} />
              ))}
              {data.items.length > 1 && <CapacityRow row={data.total} isTotal />}
            </Tbody>
          </Table>
        )}
      </CardBody>
    </Card>
  );
}
