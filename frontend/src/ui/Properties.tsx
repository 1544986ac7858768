import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
} from "@patternfly/react-core";
import type { ReactNode } from "react";
import { t } from "../text/text";

export type Property = readonly [term: string, value: ReactNode];

export function Properties({ properties }: { properties: readonly Property[] }) {
  return (
    <DescriptionList isHorizontal isCompact columnModifier={{ default: "1Col", xl: "2Col" }}>
      {properties.map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription>{value || t("common.none")}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}

export const labelText = (labels: unknown): string =>
  Object.entries((labels ?? {}) as Record<string, string>)
    .map(([k, v]) => `${k}=${v}`)
    .join(", ");
