// The registry of actions: button, kebab, right-click, bulk bar and palette show it in this order.
import { toast } from "../ui/toasts";
import { ask } from "../ui/confirm";
import { type Key, t } from "../text/text";
import { change, changeEach } from "./change";
import type { KindName, Target } from "./kinds";
import { LossOf } from "./Loss";
import * as send from "./requests";
import * as forms from "./forms";

export interface Spec {
  kind: KindName;
  /** Name of the server's action. */
  name: string;
  label: Key;
  danger?: boolean;
  /** Also offered for several objects. */
  bulk?: boolean;
  /** Opens a dialog. */
  open?: (target: Target) => void;
  /** Changes one object. */
  run?: (target: Target) => Promise<unknown>;
  /** Gentler way that the confirmation offers for nodes. */
  gentler?: { label: Key; run: (target: Target) => Promise<unknown> };
}

const drain = (x: Target) => send.drainNode(x.id, 600);

export const SPECS: readonly Spec[] = [
  {
    kind: "nodes",
    name: "cordon",
    label: "action.cordon",
    bulk: true,
    run: (x) => send.cordon(x.id),
  },
  {
    kind: "nodes",
    name: "uncordon",
    label: "action.uncordon",
    bulk: true,
    run: (x) => send.uncordon(x.id),
  },
  {
    kind: "nodes",
    name: "enter_maintenance",
    label: "action.maintenance",
    danger: true,
    run: drain,
  },
  {
    kind: "nodes",
    name: "exit_maintenance",
    label: "action.endMaintenance",
    run: (x) => send.endMaintenance(x.id),
  },
  { kind: "nodes", name: "unlock", label: "action.unlock", run: (x) => send.unlock(x.id) },
  { kind: "nodes", name: "update", label: "action.edit", open: forms.editNode },
  {
    kind: "nodes",
    name: "remove",
    label: "action.remove",
    danger: true,
    run: (x) => send.removeNode(x.id),
    gentler: { label: "action.drainInstead", run: drain },
  },
  { kind: "gpus", name: "admit", label: "action.admit", open: forms.admitGpu },
  { kind: "gpus", name: "update", label: "action.edit", open: forms.editGpu },
  { kind: "pools", name: "update", label: "action.edit", open: forms.editPool },
  {
    kind: "pools",
    name: "delete",
    label: "action.delete",
    danger: true,
    run: (x) => send.deletePool(x.id),
  },
  { kind: "projects", name: "rename", label: "action.rename", open: forms.renameProject },
  { kind: "projects", name: "move", label: "action.move", open: forms.moveProject },
  {
    kind: "projects",
    name: "delete",
    label: "action.delete",
    danger: true,
    run: (x) => send.deleteProject(x.id),
  },
  { kind: "departments", name: "rename", label: "action.rename", open: forms.renameDepartment },
  {
    kind: "departments",
    name: "delete",
    label: "action.delete",
    danger: true,
    run: (x) => send.deleteDepartment(x.id),
  },
  {
    kind: "allocations",
    name: "release",
    label: "action.release",
    danger: true,
    bulk: true,
    run: (x) => send.release(x.id),
  },
  {
    kind: "allocations",
    name: "force_release",
    label: "action.forceRelease",
    danger: true,
    run: (x) => send.forceRelease(x.id),
  },
  { kind: "users", name: "update", label: "action.edit", open: forms.editUser },
  {
    kind: "users",
    name: "reset_password",
    label: "action.resetPassword",
    danger: true,
    run: forms.resetPassword,
  },
  {
    kind: "users",
    name: "deactivate",
    label: "action.deactivate",
    danger: true,
    bulk: true,
    run: (x) => send.setActive(x.id, false),
  },
  {
    kind: "users",
    name: "delete",
    label: "action.delete",
    danger: true,
    bulk: true,
    run: (x) => send.deleteUser(x.id),
  },
  { kind: "groups", name: "add_member", label: "action.addMember", open: forms.addMember },
  { kind: "groups", name: "rename", label: "action.rename", open: forms.renameGroup },
  {
    kind: "groups",
    name: "delete",
    label: "action.delete",
    danger: true,
    run: (x) => send.deleteGroup(x.id),
  },
];

export const specsOf = (kind: KindName | undefined) => SPECS.filter((s) => s.kind === kind);

const done = (spec: Spec, x: Target) => t("result.done", { action: t(spec.label), name: x.name });
const failed = (spec: Spec, x: Target) =>
  t("result.failed", { action: t(spec.label), name: x.name });

/** Take an action: at once, in its dialog, or after a confirmation if it destroys. */
export function perform(spec: Spec, targets: Target[]) {
  const [first] = targets;
  if (!first) return;
  if (spec.open) return spec.open(first);
  const run = spec.run as NonNullable<Spec["run"]>;
  if (!spec.danger)
    return void changeEach(
      targets,
      (x) => done(spec, x),
      (x) => failed(spec, x),
      run,
    );
  const names = targets.map((x) => x.name).join(", ");
  const { gentler } = spec;
  ask({
    title: t("confirm.title", { action: t(spec.label), name: names }),
    body: LossOf({ action: spec.name, targets }),
    verb: t(spec.label),
    run: async () => {
      if (targets.length === 1) await change(done(spec, first), () => run(first));
      else
        await changeEach(
          targets,
          (x) => done(spec, x),
          (x) => failed(spec, x),
          run,
        );
    },
    ...(gentler && targets.length === 1
      ? {
          gentler: {
            verb: t(gentler.label),
            run: () =>
              gentler
                .run(first)
                .then(() =>
                  toast(
                    "success",
                    t("result.done", { action: t(gentler.label), name: first.name }),
                  ),
                ),
          },
        }
      : {}),
  });
}
