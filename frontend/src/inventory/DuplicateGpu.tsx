// Why a GPU is held that another node has as well, and what to do.
import { Alert } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import type { Gpu } from "../api/client";
import { t } from "../text/text";

/** The other node is named only to users who may view it. */
const titleOf = ({ duplicate_of_node: node }: Gpu) =>
  node ? t("gpu.duplicate", { node }) : t("gpu.duplicateHidden");
const detailOf = ({ duplicate_of_node: node }: Gpu) =>
  node ? t("gpu.duplicateDetail", { node }) : t("gpu.duplicateHiddenDetail");

/** Alert of the GPU's page; nothing for a GPU of one node. */
export function DuplicateAlert({ gpu }: { gpu: Gpu }) {
  if (!gpu.duplicate_of) return null;
  const title = titleOf(gpu);
  return (
    <Alert
      variant="warning"
      isInline
      component="p"
      title={gpu.duplicate_of_node ? <Link to={`/gpus/${gpu.duplicate_of}`}>{title}</Link> : title}
    >
      {detailOf(gpu)}
    </Alert>
  );
}

/** Line below the name of the GPU in the list of its node. */
export const DuplicateLine = ({ gpu }: { gpu: Gpu }) =>
  gpu.duplicate_of ? (
    <span className="bb-quiet">
      {t("gpu.held")}: {titleOf(gpu)}
    </span>
  ) : null;
