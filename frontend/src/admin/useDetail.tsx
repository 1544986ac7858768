// An object of a list that the live feed does not carry, by the id in the URL.
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ActionMenu } from "../actions/ActionMenu";
import { type ListName, type RowOf, listQuery } from "../api/lists";
import { type KindName, type Target, kindKey } from "../model/kinds";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { MissingPage, QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

interface DetailProps<N extends ListName> {
  list: N;
  kind: KindName;
  name: (row: RowOf<N>) => string;
  trail: readonly (readonly [string, string])[];
  labels?: (row: RowOf<N>) => ReactNode;
  panes: (row: RowOf<N>, target: Target) => Pane[];
}

export function Detail<N extends ListName>({
  list,
  kind,
  name,
  trail,
  labels,
  panes,
}: DetailProps<N>) {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(listQuery(list));
  return (
    <QueryState query={query}>
      {(rows) => {
        const row = (rows as RowOf<N>[]).find((r) => r.id === id);
        if (!row) return <MissingPage what={t(kindKey(kind))} />;
        const { version } = row as { version?: number };
        const target: Target = { kind, id, name: name(row), version };
        return (
          <>
            <PageHeader
              title={target.name}
              trail={trail}
              labels={labels?.(row)}
              actions={<ActionMenu targets={[target]} />}
            />
            <TabPanes label={target.name} panes={panes(row, target)} />
          </>
        );
      }}
    </QueryState>
  );
}
