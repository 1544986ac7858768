import { Button } from "@patternfly/react-core";
import { useState } from "react";
import type { Actionable } from "../model/kinds";
import { t } from "../text/text";
import { DeniedButton } from "../ui/DeniedButton";
import { type Answer, useRowActions } from "./queries";
import { perform, specsOf } from "./registry";

interface QuickActionProps {
  target: Actionable;
  name: string;
  variant?: "primary" | "secondary" | "link";
  /** Name for screen readers, where the label alone does not say which object is meant. */
  ariaLabel?: string;
  /** The object's own `actions`, if its detail has been read. */
  answers?: readonly Answer[];
}

/** An action of the registry as a button; a refusal shows its reason. */
export function QuickAction(props: QuickActionProps) {
  const { target, name, variant = "secondary", ariaLabel, answers: known } = props;
  const [busy, setBusy] = useState(false);
  const read = useRowActions(target, !known);
  const answers = known ?? read;
  const spec = specsOf(target.kind).find((s) => s.name === name);
  const answer = answers?.find((a) => a.name === name);
  if (!spec || (answers && !answer)) return null;
  const denied = answer && !answer.allowed ? (answer.reason ?? "") : "";
  const isOff = Boolean(denied) || busy;
  const act = async () => {
    setBusy(true);
    await Promise.resolve(perform(spec, [target])).finally(() => setBusy(false));
  };
  return (
    <DeniedButton denied={denied}>
      <Button
        variant={variant}
        isInline={variant === "link"}
        isDanger={Boolean(spec.danger)}
        isLoading={busy}
        isAriaDisabled={isOff}
        aria-label={ariaLabel}
        onClick={() => isOff || void act()}
      >
        {t(spec.label)}
      </Button>
    </DeniedButton>
  );
}
