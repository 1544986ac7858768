// Why a GPU is held that another node has as well, and what to do.
import { Alert } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import type { Gpu } from "../api/client";
import { t } from "../text/text";

const nodeOf = (gpu: Gpu) => gpu.duplicate_of_node ?? "";

/** Alert of the GPU's page; nothing for a GPU of one node. */
export function DuplicateAlert({ gpu }: { gpu: Gpu }) {
  if (!gpu.duplicate_of) return null;
  return (
    <Alert
      variant="warning"
      isInline
      component="p"
      title={
        <Link to={`/gpus/${gpu.duplicate_of}`}>{t("gpu.duplicate", { node: nodeOf(gpu) })}</Link>
      }
    >
      {t("gpu.duplicateDetail", { node: nodeOf(gpu) })}
    </Alert>
  );
}

/** Line below the name of the GPU in the list of its node. */
export const DuplicateLine = ({ gpu }: { gpu: Gpu }) =>
  gpu.duplicate_of ? (
    <span className="bb-quiet">
      {t("gpu.held")}: {t("gpu.duplicate", { node: nodeOf(gpu) })}
    </span>
  ) : null;
