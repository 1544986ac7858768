import { Card, CardBody, CardHeader, CardTitle } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { PaneBoundary } from "./PaneBoundary";

/** A card that fails alone. */
export function Panel({
  title,
  detail,
  actions,
  children,
}: {
  title: string;
  detail?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Card>
      <CardHeader {...(actions ? { actions: { actions, hasNoOffset: true } } : {})}>
        <CardTitle component="h2">
          {title} {detail && <span className="bb-quiet">{detail}</span>}
        </CardTitle>
      </CardHeader>
      <CardBody>
        <PaneBoundary>{children}</PaneBoundary>
      </CardBody>
    </Card>
  );
}
