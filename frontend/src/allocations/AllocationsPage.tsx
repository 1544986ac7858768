import { Button, Flex, PageSection, Title } from "@patternfly/react-core";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { useState } from "react";
import { useDenied } from "../account/account";
import { useRows } from "../api/queries";
import { AllocateDialog } from "./AllocateDialog";
import { AllocationTable } from "./AllocationTable";

export function AllocationsPage() {
  const allocations = useRows("allocation");
  const denied = useDenied("allocations.create");
  const [open, setOpen] = useState(false);
  const hasEnded = (state?: string) => state === "released" || state === "failed";
  return (
    <>
      <PageSection>
        <Flex
          justifyContent={{ default: "justifyContentSpaceBetween" }}
          alignItems={{ default: "alignItemsCenter" }}
        >
          <Title headingLevel="h1">Allocations</Title>
          <Button
            variant="primary"
            icon={<PlusCircleIcon />}
            isAriaDisabled={Boolean(denied)}
            title={denied}
            onClick={() => denied || setOpen(true)}
          >
            Allocate GPUs
          </Button>
        </Flex>
      </PageSection>
      <PageSection className="bb-stack">
        <AllocationTable
          title="Active and queued"
          allocations={allocations.filter((a) => !hasEnded(a.state))}
        />
        <AllocationTable
          title="Ended"
          allocations={allocations.filter((a) => hasEnded(a.state)).slice(0, 50)}
        />
      </PageSection>
      {open && <AllocateDialog onClose={() => setOpen(false)} />}
    </>
  );
}
