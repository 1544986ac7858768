import { PageSection } from "@patternfly/react-core";
import { AllocateButton } from "../allocations/AllocateButton";
import { AllocationTable } from "../allocations/AllocationTable";
import { useRows } from "../api/queries";
import { hasEnded } from "../model/allocationNames";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Loaded } from "../ui/states";

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
