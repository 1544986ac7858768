// What there is and what becomes of it, by pool, node or model: asked for again every ten seconds, since use is measured.
import { Card, CardBody, CardHeader, CardTitle, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Capacity, unwrap } from "../api/client";
import { gib } from "../format";

const AGAIN_MS = 10_000;
const GROUPS = ["pool", "node", "site", "model"] as const;
type Group = (typeof GROUPS)[number];
const AMOUNTS = ["capacity", "allocatable", "allocated", "used", "idle"] as const;
const MEANING: Record<(typeof AMOUNTS)[number], string> = {
  capacity: "All that is there",
  allocatable: "On ready and reachable nodes, in a pool: given or not",
  allocated: "Given to somebody",
  used: "As measured",
  idle: "Given to somebody, and not used",
};

const gpus = (value: number) => String(Math.round(value * 10) / 10);

function Line({ row, whole }: { row: Capacity; whole?: boolean }) {
  return (
    <Tr className={whole ? "bb-total" : ""}>
      <Th scope="row" dataLabel="Name">
        {row.name}
      </Th>
      {AMOUNTS.map((a) => (
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
    refetchInterval: AGAIN_MS,
    placeholderData: (before) => before,
  });
  return (
    <Card>
      <CardHeader
        actions={{
          actions: (
            <ToggleGroup aria-label="Capacity by" isCompact>
              {GROUPS.map((g) => (
                <ToggleGroupItem key={g} text={g} buttonId={`capacity-${g}`} isSelected={g === by} onChange={() => setBy(g)} />
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
                {AMOUNTS.map((a) => (
                  <Th key={a} info={{ tooltip: MEANING[a] }}>
                    {a}
                  </Th>
                ))}
              </Tr>
            </Thead>
            <Tbody>
              {data.items.map((row) => (
                <Line key={row.id ?? row.name} row={row} />
              ))}
              {data.items.length > 1 && <Line row={data.total} whole />}
            </Tbody>
          </Table>
        )}
      </CardBody>
    </Card>
  );
}
