import { Button } from "@patternfly/react-core";
import { t } from "../text/text";
import { DeniedButton } from "../ui/DeniedButton";
import type { Target } from "./kinds";
import { useActions } from "./queries";
import { perform, specsOf } from "./registry";

/** An action of the registry as a button; a refusal shows its reason. */
export function QuickAction({
  target,
  name,
  variant = "secondary",
}: {
  target: Target;
  name: string;
  variant?: "primary" | "secondary";
}) {
  const answers = useActions([target])?.get(`${target.kind}/${target.id}`);
  const spec = specsOf(target.kind).find((s) => s.name === name);
  const answer = answers?.find((a) => a.name === name);
  if (!spec) return null;
  const denied = answer && !answer.allowed ? (answer.reason ?? "") : "";
  return (
    <DeniedButton denied={denied}>
      <Button
        variant={variant}
        isDanger={Boolean(spec.danger)}
        isAriaDisabled={Boolean(denied)}
        onClick={() => denied || perform(spec, [target])}
      >
        {t(spec.label)}
      </Button>
    </DeniedButton>
  );
}
