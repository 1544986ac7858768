// Marks of a demo fleet (`./run --demo-fleet`), whose nodes, GPUs and programs do not exist.
import { Alert, Label } from "@patternfly/react-core";
import { useRows } from "../api/queries";
import { counted, t } from "../text/text";

/** Label of a node, GPU or pool that is simulated. */
export const SimulatedLabel = () => (
  <Label isCompact color="purple" variant="outline">
    {t("simulated.label")}
  </Label>
);

/** Banner of every page while the appliance has simulated nodes. */
export function SimulatedBanner() {
  const count = useRows("node").filter((n) => n.simulated).length;
  if (count === 0) return null;
  return (
    <Alert
      variant="custom"
      isInline
      component="p"
      title={counted("simulated.banner", count)}
      className="bb-banner"
    />
  );
}
