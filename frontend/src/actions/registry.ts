// The registry of actions: button, kebab, right-click, bulk bar and palette show it in this order.
import type { Actionable } from "../model/kinds";
import { t } from "../text/text";
import { toast, toastFailure } from "../ui/toasts";
import { ask } from "../ui/confirm";
import { change, changeEach } from "./change";
import { LISTED_SPECS } from "./listedSpecs";
import { LossOf } from "./Loss";
import * as send from "./requests";
import * as forms from "./forms";
import { resizeAllocation } from "./resize";
import type { Spec } from "./spec";

const drain = (x: Actionable) => send.drainNode(x.id, 600);

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
    name: "suspend",
    label: "action.suspend",
    bulk: true,
    confirm: "confirm.suspend",
    run: (x) => send.suspend(x.id),
  },
  {
    kind: "allocations",
    name: "resume",
    label: "action.resume",
    bulk: true,
    confirm: "confirm.resume",
    run: (x) => send.resume(x.id),
  },
  { kind: "allocations", name: "resize", label: "action.resize", open: resizeAllocation },
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
    name: "reset_second_factor",
    label: "action.resetSecondFactor",
    danger: true,
    run: (x) => send.resetSecondFactor(x.id),
  },
  {
    kind: "users",
    name: "deactivate",
    label: "action.deactivate",
    danger: true,
    bulk: true,
    run: (x) => send.setActive(x, false),
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
  ...LISTED_SPECS,
];

export const specsOf = (kind: Actionable["kind"] | undefined) =>
  SPECS.filter((s) => s.kind === kind);

const done = (spec: Spec, x: Actionable) =>
  t("result.done", { action: t(spec.label), name: x.name });
const failed = (spec: Spec, x: Actionable) =>
  t("result.failed", { action: t(spec.label), name: x.name });

/** Open the dialog of an action. A failure to read the object is shown in its place. */
async function showDialog(spec: Spec, show: NonNullable<Spec["open"]>, x: Actionable) {
  try {
    await show(x);
  } catch (problem) {
    toastFailure(failed(spec, x), problem);
  }
}

type Run = NonNullable<Spec["run"]>;

function runEach(spec: Spec, targets: Actionable[], run: Run): Promise<void> {
  return changeEach(
    targets,
    (x) => done(spec, x),
    (x) => failed(spec, x),
    run,
  );
}

/** Return the way that the confirmation offers in place of the action. */
const gentlerWay = ({ label, run }: NonNullable<Spec["gentler"]>, x: Actionable) => ({
  verb: t(label),
  run: async () => {
    await run(x);
    toast("success", t("result.done", { action: t(label), name: x.name }));
  },
});

function askFirst(spec: Spec, targets: [Actionable, ...Actionable[]], run: Run) {
  const [first] = targets;
  const isOne = targets.length === 1;
  const names = targets.map((x) => x.name).join(", ");
  ask({
    title: t("confirm.title", { action: t(spec.label), name: names }),
    body: spec.confirm ? t(spec.confirm) : LossOf({ action: spec.name, targets }),
    ...(spec.confirm ? { isHarmless: true } : {}),
    verb: t(spec.label),
    run: () => (isOne ? change(done(spec, first), () => run(first)) : runEach(spec, targets, run)),
    ...(spec.gentler && isOne ? { gentler: gentlerWay(spec.gentler, first) } : {}),
  });
}

/** Take an action: at once, in its dialog, or after a confirmation if it destroys. */
export async function perform(spec: Spec, targets: Actionable[]): Promise<void> {
  const [first, ...others] = targets;
  if (!first) return;
  if (spec.open) return showDialog(spec, spec.open, first);
  const run = spec.run as Run;
  if (!spec.danger && !spec.confirm) return runEach(spec, targets, run);
  askFirst(spec, [first, ...others], run);
}
