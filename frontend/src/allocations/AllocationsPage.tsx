import { PageSection } from "@patternfly/react-core";
import { useRows } from "../api/queries";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Loaded } from "../ui/states";
import { AllocateButton } from "./AllocateButton";
import { AllocationTable } from "./AllocationTable";
import { hasEnded } from "./names";

function Tables() {
  const allocations = useRows("allocation");
  return (
    <>
      <AllocationTable
        title={t("allocation.current")}
        allocations={allocations.filter((a) => !hasEnded(a))}
      />
      <AllocationTable title={t("allocation.ended")} allocations={allocations.filter(hasEnded)} />
    </>
  );
}

export default function AllocationsPage() {
  return (
    <>
      <PageHeader title={t("nav.allocations")} actions={<AllocateButton />} />
      <PageSection className="bb-stack">
        <Loaded kinds={["allocation"]}>
          <Tables />
        </Loaded>
      </PageSection>
    </>
  );
}
