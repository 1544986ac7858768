// Table of many rows: filter, sorting, choice of columns, selection with a bulk menu, row actions,
// CSV. Only visible rows are in the document once there are many.
import { Button, SearchInput, Toolbar, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { type ReactNode, useMemo, useState } from "react";
import { ActionMenu, openContextMenu } from "../actions/ActionMenu";
import type { Actionable, Target } from "../model/kinds";
import { type Key, counted, t } from "../text/text";
import { downloadCsv } from "../ui/csv";
import { NoMatch, StateBlock } from "../ui/states";
import { useWindow } from "../ui/useWindow";
import { ColumnChooser } from "./ColumnChooser";
import { useColumnChoice } from "./columnChoice";
import { ObjectLink } from "./ObjectLink";

const ROW_HEIGHT = 40;
const HEAD_HEIGHT = 40;
/** Longer lists scroll within the table and render only what is visible. */
const MAX_RENDERED = 100;

export interface Column<R> {
  id: string;
  label: Key;
  /** What is sorted, filtered and exported. */
  value: (row: R) => string | number;
  cell?: (row: R) => ReactNode;
  /** Show the whole label, where the values are short. */
  isShort?: boolean;
  /** Names the object of the row, and cannot be hidden. By default the first column does. */
  isIdentity?: boolean;
}

export interface DataTableProps<R extends { id: string }> {
  /** Name under which the browser remembers the choice of columns. */
  table: string;
  label: string;
  rows: readonly R[];
  columns: readonly Column<R>[];
  /** The object of a row: its first column links there, and the row gets its actions. */
  target?: (row: R) => Target;
  /** The object of a row that has no page: the row gets its actions. */
  actionable?: (row: R) => Actionable | undefined;
  /** Buttons at the end of a row. */
  rowEnd?: (row: R) => ReactNode;
  hasBulk?: boolean;
  toolbar?: ReactNode;
  empty?: ReactNode;
  hasFilter?: boolean;
}

interface Sorting {
  column: string;
  direction: "asc" | "desc";
}

const compare = (a: string | number, b: string | number) =>
  typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true });

function useShown<R>(
  rows: readonly R[],
  columns: readonly Column<R>[],
  filter: string,
  sorting: Sorting | null,
): R[] {
  return useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    const found = wanted
      ? rows.filter((r) => columns.some((c) => String(c.value(r)).toLowerCase().includes(wanted)))
      : [...rows];
    const column = columns.find((c) => c.id === sorting?.column);
    if (!sorting || !column) return found;
    const sign = sorting.direction === "asc" ? 1 : -1;
    return found.sort((a, b) => sign * compare(column.value(a), column.value(b)));
  }, [rows, columns, filter, sorting]);
}

const objectOf = <R extends { id: string }>(props: DataTableProps<R>, row: R) =>
  props.target?.(row) ?? props.actionable?.(row);

export function DataTable<R extends { id: string }>(props: DataTableProps<R>) {
  const { table, label, rows, hasBulk = false, toolbar, empty, hasFilter = true } = props;
  const [filter, setFilter] = useState("");
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const choice = useColumnChoice(table, props.columns);
  const columns = choice.shown;
  const shown = useShown(rows, columns, filter, sorting);
  const chosen = rows.filter((r) => selected.has(r.id)).flatMap((r) => objectOf(props, r) ?? []);
  const exportRows = () =>
    downloadCsv(label, [
      columns.map((c) => t(c.label)),
      ...shown.map((r) => columns.map((c) => c.value(r))),
    ]);
  return (
    <>
      <Toolbar inset={{ default: "insetNone" }} className="bb-toolbar">
        <ToolbarContent>
          {hasFilter && (
            <ToolbarItem>
              <SearchInput
                aria-label={t("common.filterOf", { what: label })}
                placeholder={t("common.filter")}
                value={filter}
                onChange={(_, v) => setFilter(v)}
                onClear={() => setFilter("")}
              />
            </ToolbarItem>
          )}
          {chosen.length > 0 && (
            <ToolbarItem>
              <ActionMenu
                targets={chosen}
                text={counted("common.selected", chosen.length)}
                done={() => setSelected(new Set())}
              />
            </ToolbarItem>
          )}
          {toolbar && <ToolbarItem>{toolbar}</ToolbarItem>}
          <ToolbarItem
            align={{ default: "alignEnd" }}
            alignSelf="center"
            className="bb-tableactions"
          >
            <span className="bb-quiet" role="status">
              {shown.length === rows.length
                ? counted("common.rows", rows.length)
                : t("common.rowsOf", { shown: shown.length, total: rows.length })}
            </span>
            {rows.length > 0 && props.columns.length > 1 && (
              <ColumnChooser label={label} columns={props.columns} choice={choice} />
            )}
            <Button variant="link" isInline isDisabled={shown.length === 0} onClick={exportRows}>
              {t("common.csv")}
            </Button>
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {rows.length === 0 ? (
        (empty ?? <StateBlock level="h3" title={t("state.none")} />)
      ) : shown.length === 0 ? (
        <NoMatch filter={filter} clear={() => setFilter("")} />
      ) : (
        <Rows
          {...props}
          columns={columns}
          shown={shown}
          sorting={sorting}
          setSorting={setSorting}
          selected={hasBulk ? selected : undefined}
          setSelected={setSelected}
        />
      )}
    </>
  );
}

interface RowsProps<R extends { id: string }> extends DataTableProps<R> {
  shown: R[];
  sorting: Sorting | null;
  setSorting: (sorting: Sorting) => void;
  selected: ReadonlySet<string> | undefined;
  setSelected: (selected: ReadonlySet<string>) => void;
}

function Rows<R extends { id: string }>(props: RowsProps<R>) {
  const { label, columns, target, rowEnd, shown, sorting, setSorting, selected, setSelected } =
    props;
  const many = shown.length > MAX_RENDERED;
  const view = useWindow(shown.length, ROW_HEIGHT, HEAD_HEIGHT);
  const visible = many ? shown.slice(view.start, view.end) : shown;
  const span = columns.length + 2;
  const hasActions = Boolean(target || props.actionable || rowEnd);
  const choose = (id: string, on: boolean) => {
    const next = new Set(selected);
    if (on) next.add(id);
    else next.delete(id);
    setSelected(next);
  };
  return (
    <div
      ref={view.container}
      className={many ? "bb-scroll bb-scroll--many" : "bb-scroll"}
      {...(many ? { tabIndex: 0, role: "region", "aria-label": label } : {})}
    >
      <Table
        variant="compact"
        aria-label={label}
        aria-rowcount={shown.length + 1}
        isStickyHeader={many}
      >
        <Thead>
          <Tr>
            {selected && (
              <Th
                aria-label={t("common.selectAll")}
                select={{
                  isSelected: shown.every((r) => selected.has(r.id)),
                  onSelect: (_, on) => setSelected(new Set(on ? shown.map((r) => r.id) : [])),
                }}
              />
            )}
            {columns.map((c, i) => (
              <Th
                key={c.id}
                {...(c.isShort ? { modifier: "nowrap" as const } : {})}
                sort={{
                  columnIndex: i,
                  sortBy:
                    sorting?.column === c.id ? { index: i, direction: sorting.direction } : {},
                  onSort: (_, __, direction) => setSorting({ column: c.id, direction }),
                }}
              >
                {t(c.label)}
              </Th>
            ))}
            {hasActions && <Th screenReaderText={t("common.actions")} />}
          </Tr>
        </Thead>
        <Tbody>
          {many && view.start > 0 && (
            <Tr aria-hidden style={{ height: view.start * ROW_HEIGHT }}>
              <Td colSpan={span} />
            </Tr>
          )}
          {visible.map((row, i) => {
            const place = target?.(row);
            const object = objectOf(props, row);
            return (
              <Tr
                key={row.id}
                aria-rowindex={(many ? view.start : 0) + i + 2}
                onContextMenu={(e) => object && openContextMenu(e, object)}
              >
                {selected && (
                  <Td
                    select={{
                      rowIndex: i,
                      isSelected: selected.has(row.id),
                      onSelect: (_, on) => choose(row.id, on),
                    }}
                  />
                )}
                {columns.map((c, at) => (
                  <Td key={c.id} dataLabel={t(c.label)}>
                    {at === 0 && place && !c.cell ? (
                      <ObjectLink target={place} />
                    ) : (
                      (c.cell?.(row) ?? <bdi>{c.value(row)}</bdi>)
                    )}
                  </Td>
                ))}
                {hasActions && (
                  <Td isActionCell={Boolean(object)}>
                    {rowEnd?.(row)}
                    {object && <ActionMenu targets={[object]} />}
                  </Td>
                )}
              </Tr>
            );
          })}
          {many && view.end < shown.length && (
            <Tr aria-hidden style={{ height: (shown.length - view.end) * ROW_HEIGHT }}>
              <Td colSpan={span} />
            </Tr>
          )}
        </Tbody>
      </Table>
    </div>
  );
}
