import { Button } from "@patternfly/react-core";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { useDenied } from "../model/account";
import { t } from "../text/text";
import { DeniedButton } from "../ui/DeniedButton";
import { openAllocate } from "./AllocateDialog";

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
