// Capacity table by pool, node, site or model. The feed invalidates it (api/feed.ts); use is measured
// without a change of an object, so it also reloads every 10 s.
import { ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Capacity, unwrap } from "../api/client";
import { gib, gpuCount } from "../model/format";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";

const REFRESH_MS = 10_000;
const GROUPS = ["pool", "node", "site", "model"] as const;
type Group = (typeof GROUPS)[number];
const COLUMNS = ["capacity", "allocatable", "allocated", "used", "idle"] as const;

function CapacityRow({ row, isTotal }: { row: Capacity; isTotal?: boolean }) {
  return (
    <Tr className={isTotal ? "bb-total" : ""}>
      <Th scope="row" dataLabel={t("field.name")}>
        {isTotal ? t("capacity.total") : row.name}
      </Th>
      {COLUMNS.map((a) => (
        <Td key={a} dataLabel={t(`capacity.${a}`)}>
          {gpuCount(row.gpus[a])} <span className="bb-quiet">{gib(row.memory_bytes[a])}</span>
        </Td>
      ))}
    </Tr>
  );
}

function GroupChoice({ by, setBy }: { by: Group; setBy: (by: Group) => void }) {
  return (
    <ToggleGroup aria-label={t("capacity.groupBy")} isCompact>
      {GROUPS.map((g) => (
        <ToggleGroupItem
          key={g}
          text={t(`capacity.by.${g}`)}
          buttonId={`by-${g}`}
          isSelected={g === by}
          onChange={() => setBy(g)}
        />
      ))}
    </ToggleGroup>
  );
}

function CapacityTable({ by, items, total }: { by: Group; items: Capacity[]; total: Capacity }) {
  return (
    <Table variant="compact" aria-label={t("capacity.label")}>
      <Thead>
        <Tr>
          <Th>{t(`capacity.by.${by}`)}</Th>
          {COLUMNS.map((a) => (
            <Th key={a} info={{ tooltip: t(`capacity.help.${a}`) }}>
              {t(`capacity.${a}`)}
            </Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {items.map((row) => (
          <CapacityRow key={row.id ?? row.name} row={row} />
        ))}
        {items.length > 1 && <CapacityRow row={total} isTotal />}
      </Tbody>
    </Table>
  );
}

export function CapacityCard() {
  const [by, setBy] = useState<Group>("pool");
  const capacity = useQuery({
    queryKey: ["capacity", by],
    queryFn: () => api.GET("/api/v1/capacity", { params: { query: { by } } }).then(unwrap),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
  return (
    <Panel title={t("capacity.title")} actions={<GroupChoice {...{ by, setBy }} />}>
      <QueryState query={capacity}>
        {({ items, total }) => <CapacityTable {...{ by, items, total }} />}
      </QueryState>
    </Panel>
  );
}
