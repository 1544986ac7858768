// Head and rows of a table. Only visible rows are in the document once there are many.
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { ReactNode } from "react";
import { ActionMenu, openContextMenu } from "../actions/ActionMenu";
import type { Actionable, Target } from "../model/kinds";
import { t } from "../text/text";
import { useWindow } from "../ui/useWindow";
import type { Column, Sorting } from "./columns";
import { ObjectLink } from "./ObjectLink";

const ROW_HEIGHT = 40;
const HEAD_HEIGHT = 40;
/** Longer lists scroll within the table and render only what is visible. */
const MAX_RENDERED = 100;

/** What belongs to a row besides its columns. */
export interface RowObjects<R> {
  /** The object of a row: its first column links there, and the row gets its actions. */
  target?: (row: R) => Target;
  /** The object of a row that has no page: the row gets its actions. */
  actionable?: (row: R) => Actionable | undefined;
  /** Buttons at the end of a row. */
  rowEnd?: (row: R) => ReactNode;
}

interface RowsProps<R extends { id: string }> extends RowObjects<R> {
  label: string;
  columns: readonly Column<R>[];
  shown: R[];
  sorting: Sorting | null;
  setSorting: (sorting: Sorting) => void;
  /** Ids of the selected rows, if rows can be selected. */
  selected: ReadonlySet<string> | undefined;
  setSelected: (selected: ReadonlySet<string>) => void;
}

export const objectOf = <R,>({ target, actionable }: RowObjects<R>, row: R) =>
  target?.(row) ?? actionable?.(row);
const hasActions = <R,>({ target, actionable, rowEnd }: RowObjects<R>) =>
  Boolean(target || actionable || rowEnd);

function Head<R extends { id: string }>(props: RowsProps<R>) {
  const { columns, shown, sorting, setSorting, selected, setSelected } = props;
  return (
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
              sortBy: sorting?.column === c.id ? { index: i, direction: sorting.direction } : {},
              onSort: (_, __, direction) => setSorting({ column: c.id, direction }),
            }}
          >
            {t(c.label)}
          </Th>
        ))}
        {hasActions(props) && <Th screenReaderText={t("common.actions")} />}
      </Tr>
    </Thead>
  );
}

interface RowProps<R extends { id: string }> {
  row: R;
  /** Position among the visible rows, and among all. */
  index: number;
  at: number;
  table: RowsProps<R>;
}

function SelectCell<R extends { id: string }>({ row, index, table }: RowProps<R>) {
  const { selected, setSelected } = table;
  const choose = (on: boolean) => {
    const next = new Set(selected);
    if (on) next.add(row.id);
    else next.delete(row.id);
    setSelected(next);
  };
  return (
    <Td
      select={{
        rowIndex: index,
        isSelected: Boolean(selected?.has(row.id)),
        onSelect: (_, on) => choose(on),
      }}
    />
  );
}

function Row<R extends { id: string }>(props: RowProps<R>) {
  const { row, at, table } = props;
  const { columns, target, rowEnd, selected } = table;
  const place = target?.(row);
  const object = objectOf(table, row);
  return (
    <Tr aria-rowindex={at + 2} onContextMenu={(e) => object && openContextMenu(e, object)}>
      {selected && <SelectCell {...props} />}
      {columns.map((c, i) => (
        <Td key={c.id} dataLabel={t(c.label)}>
          {i === 0 && place && !c.cell ? (
            <ObjectLink target={place} />
          ) : (
            (c.cell?.(row) ?? <bdi>{c.value(row)}</bdi>)
          )}
        </Td>
      ))}
      {hasActions(table) && (
        <Td isActionCell={Boolean(object)}>
          {rowEnd?.(row)}
          {object && <ActionMenu targets={[object]} />}
        </Td>
      )}
    </Tr>
  );
}

/** Room of rows that are not rendered. */
function Gap({ rows, span }: { rows: number; span: number }) {
  if (rows <= 0) return null;
  return (
    <Tr aria-hidden style={{ height: rows * ROW_HEIGHT }}>
      <Td colSpan={span} />
    </Tr>
  );
}

export function TableRows<R extends { id: string }>(props: RowsProps<R>) {
  const { label, columns, shown } = props;
  const many = shown.length > MAX_RENDERED;
  const view = useWindow(shown.length, ROW_HEIGHT, HEAD_HEIGHT);
  const [start, end] = many ? [view.start, view.end] : [0, shown.length];
  const span = columns.length + 2;
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
        <Head {...props} />
        <Tbody>
          <Gap rows={start} span={span} />
          {shown.slice(start, end).map((row, i) => (
            <Row key={row.id} row={row} index={i} at={start + i} table={props} />
          ))}
          <Gap rows={shown.length - end} span={span} />
        </Tbody>
      </Table>
    </div>
  );
}
