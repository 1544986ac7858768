// What the user should know: open alarms without acknowledgement, and own tasks that failed.
import { useMemo } from "react";
import { rankOf } from "../alarms/alarms";
import type { Alarm, Task } from "../api/client";
import { useRows } from "../api/queries";
import { useAccount } from "../model/account";
import { useStoredIds } from "../ui/storedIds";

export interface Notices {
  /** The most severe come first, and of these the newest. */
  alarms: Alarm[];
  failures: Task[];
  count: number;
  /** Remember that the user has seen the failures of the drawer. Alarms stay until acknowledged. */
  markSeen: () => void;
}

/** Notices of each kind in the drawer. */
export const SHOWN = 50;
const MAX_REMEMBERED = 200;
/** Grows when what is stored changes its meaning. */
const VERSION = 1;

export function useNotices(): Notices {
  const { me } = useAccount();
  const [stored, store] = useStoredIds(`seenFailures.v${VERSION}.${me.id}`);
  const [rows, tasks] = [useRows("alarm"), useRows("task")];
  return useMemo(() => {
    const alarms = rows
      .filter((a) => a.state === "active")
      .sort((a, b) => rankOf(a) - rankOf(b) || (a.id < b.id ? 1 : -1));
    const seen = new Set(stored);
    const failures = tasks.filter(
      (x) => x.state === "failed" && x.initiator === me.username && !seen.has(x.id),
    );
    const markSeen = () => {
      const ids = failures.slice(0, SHOWN).map((x) => x.id);
      if (ids.length > 0) store([...ids, ...stored].slice(0, MAX_REMEMBERED));
    };
    return { alarms, failures, count: alarms.length + failures.length, markSeen };
  }, [rows, tasks, stored, store, me.username]);
}
