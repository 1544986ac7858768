// Which columns of a table a user has hidden. This browser remembers it.
import { useMemo } from "react";
import { useAccount } from "../model/account";
import { useStoredIds } from "../ui/storedIds";

/** Grows when what is stored changes its meaning. */
const VERSION = 1;

interface Choosable {
  id: string;
  /** Names the object of the row, and cannot be hidden. By default the first column does. */
  isIdentity?: boolean;
}

export interface ColumnChoice<C extends Choosable> {
  shown: readonly C[];
  isFixed: (column: C) => boolean;
  show: (column: C, isShown: boolean) => void;
  reset: () => void;
}

/** The choice of the user for a table. Tables of the same name share it. */
export function useColumnChoice<C extends Choosable>(
  table: string,
  columns: readonly C[],
): ColumnChoice<C> {
  const { me } = useAccount();
  const [stored, store] = useStoredIds(`columns.v${VERSION}.${me.id}.${table}`);
  return useMemo(() => {
    const identity = columns.find((c) => c.isIdentity) ?? columns[0];
    const wanted = new Set(stored);
    const hidden = columns.filter((c) => c !== identity && wanted.has(c.id)).map((c) => c.id);
    return {
      shown: columns.filter((c) => !hidden.includes(c.id)),
      isFixed: (column) => column === identity,
      show: (column, isShown) => {
        const others = hidden.filter((id) => id !== column.id);
        store(isShown ? others : [...others, column.id]);
      },
      reset: () => store([]),
    };
  }, [stored, store, columns]);
}
