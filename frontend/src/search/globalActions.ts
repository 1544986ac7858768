// Actions that need no object, as the palette shows them.
import { openAllocate } from "../allocations/AllocateDialog";
import type { Me } from "../api/client";
import { openAddNode } from "../inventory/AddNodeDialog";
import { deniedText } from "../model/account";
import type { Key } from "../text/text";

export interface GlobalAction {
  label: Key;
  /** Why the user may not, or an empty string. */
  denied: string;
  run: () => void;
}

export const globalActions = (me: Me): GlobalAction[] => [
  {
    label: "action.allocate",
    denied: deniedText(me, "allocations.create"),
    run: () => openAllocate(),
  },
  { label: "action.addNode", denied: deniedText(me, "fleet.enrol"), run: openAddNode },
];
