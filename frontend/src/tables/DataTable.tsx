// Table of many rows: filter, sorting, choice of columns, selection with a bulk menu, CSV.
import { Button, SearchInput, Toolbar, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { type ReactNode, useState } from "react";
import { ActionMenu } from "../actions/ActionMenu";
import type { Actionable } from "../model/kinds";
import { counted, t } from "../text/text";
import { downloadCsv } from "../ui/csv";
import { NoMatch, StateBlock } from "../ui/states";
import { ColumnChooser } from "./ColumnChooser";
import { type ColumnChoice, useColumnChoice } from "./columnChoice";
import { type Column, type Sorting, useShown } from "./columns";
import { type RowObjects, TableRows, objectOf } from "./TableRows";

export type { Column } from "./columns";

export interface DataTableProps<R extends { id: string }> extends RowObjects<R> {
  /** Name under which the browser remembers the choice of columns. */
  table: string;
  label: string;
  rows: readonly R[];
  columns: readonly Column<R>[];
  hasBulk?: boolean;
  toolbar?: ReactNode;
  empty?: ReactNode;
  hasFilter?: boolean;
}

interface FilterProps {
  label: string;
  filter: string;
  setFilter: (filter: string) => void;
}

function Filter({ label, filter, setFilter }: FilterProps) {
  return (
    <ToolbarItem>
      <SearchInput
        aria-label={t("common.filterOf", { what: label })}
        placeholder={t("common.filter")}
        value={filter}
        onChange={(_, v) => setFilter(v)}
        onClear={() => setFilter("")}
      />
    </ToolbarItem>
  );
}

interface SummaryProps<R extends { id: string }> {
  table: DataTableProps<R>;
  shown: R[];
  choice: ColumnChoice<Column<R>>;
}

/** Number of rows, choice of columns and CSV at the end of the toolbar. */
function Summary<R extends { id: string }>({ table, shown, choice }: SummaryProps<R>) {
  const { label, rows, columns } = table;
  const exportRows = () =>
    downloadCsv(label, [
      choice.shown.map((c) => t(c.label)),
      ...shown.map((r) => choice.shown.map((c) => c.value(r))),
    ]);
  return (
    <ToolbarItem align={{ default: "alignEnd" }} alignSelf="center" className="bb-tableactions">
      <span className="bb-quiet" role="status">
        {shown.length === rows.length
          ? counted("common.rows", rows.length)
          : t("common.rowsOf", { shown: shown.length, total: rows.length })}
      </span>
      {rows.length > 0 && columns.length > 1 && (
        <ColumnChooser label={label} columns={columns} choice={choice} />
      )}
      <Button variant="link" isInline isDisabled={shown.length === 0} onClick={exportRows}>
        {t("common.csv")}
      </Button>
    </ToolbarItem>
  );
}

function BulkMenu({ chosen, done }: { chosen: Actionable[]; done: () => void }) {
  return (
    <ToolbarItem>
      <ActionMenu targets={chosen} text={counted("common.selected", chosen.length)} done={done} />
    </ToolbarItem>
  );
}

export function DataTable<R extends { id: string }>(props: DataTableProps<R>) {
  const { table, label, rows, hasBulk = false, toolbar, empty, hasFilter = true } = props;
  const [filter, setFilter] = useState("");
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const choice = useColumnChoice(table, props.columns);
  const shown = useShown(rows, choice.shown, filter, sorting);
  const chosen = rows.filter((r) => selected.has(r.id)).flatMap((r) => objectOf(props, r) ?? []);
  return (
    <>
      <Toolbar inset={{ default: "insetNone" }} className="bb-toolbar">
        <ToolbarContent>
          {hasFilter && <Filter {...{ label, filter, setFilter }} />}
          {chosen.length > 0 && <BulkMenu chosen={chosen} done={() => setSelected(new Set())} />}
          {toolbar && <ToolbarItem>{toolbar}</ToolbarItem>}
          <Summary table={props} {...{ shown, choice }} />
        </ToolbarContent>
      </Toolbar>
      {rows.length === 0 ? (
        (empty ?? <StateBlock level="h3" title={t("state.none")} />)
      ) : shown.length === 0 ? (
        <NoMatch filter={filter} clear={() => setFilter("")} />
      ) : (
        <TableRows
          {...props}
          {...{ shown, sorting, setSorting, setSelected }}
          columns={choice.shown}
          selected={hasBulk ? selected : undefined}
        />
      )}
    </>
  );
}
