// Actions that need no object. Buttons and the palette show them.
import type { Me } from "../api/client";
import { AllocateDialog } from "../allocations/AllocateDialog";
import { AddNodeDialog } from "../inventory/AddNodeDialog";
import { type Key, coded, t } from "../text/text";
import { openDialog } from "./dialogs";

export interface GlobalAction {
  label: Key;
  /** Why the user may not, or an empty string. */
  denied: string;
  run: () => void;
}
export interface Preset {
  pool?: string;
  gpu?: string;
  percent?: number;
}

export const openAllocate = (preset: Preset = {}) =>
  openDialog((close) => <AllocateDialog onClose={close} preset={preset} />);
export const openAddNode = () => openDialog((close) => <AddNodeDialog onClose={close} />);

export function deniedText(me: Me, privilege: string): string {
  return me.privileges.includes(privilege)
    ? ""
    : t("denied.privilege", { privilege: coded("privilege", privilege, privilege) });
}

export const globalActions = (me: Me): GlobalAction[] => [
  {
    label: "action.allocate",
    denied: deniedText(me, "allocations.create"),
    run: () => openAllocate(),
  },
  { label: "action.addNode", denied: deniedText(me, "fleet.enrol"), run: openAddNode },
];
