// Columns of a table, and the order of its rows.
import { type ReactNode, useMemo } from "react";
import type { Key } from "../text/text";

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

export interface Sorting {
  column: string;
  direction: "asc" | "desc";
}

const compare = (a: string | number, b: string | number) =>
  typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true });

/** Return the rows that contain the text of the filter in a column, in order. */
export function useShown<R>(
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
