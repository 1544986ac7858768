import { Button, PageSection } from "@patternfly/react-core";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { openAllocate } from "../actions/globals";
import { useDenied } from "../account/account";
import { useRows } from "../api/queries";
import { t } from "../text/text";
import { DeniedButton } from "../ui/DeniedButton";
import { PageHeader } from "../ui/PageHeader";
import { Loaded } from "../ui/states";
import { AllocationTable } from "./AllocationTable";
import { hasEnded } from "./names";

export function AllocateButton() {
  const denied = useDenied("allocations.create");
  return (
    <DeniedButton denied={denied}>
      <Button
        variant="primary"
        icon={<PlusCircleIcon />}
        isAriaDisabled={Boolean(denied)}
        onClick={() => denied || openAllocate()}
      >
        {t("action.allocate")}
      </Button>
    </DeniedButton>
  );
}

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
