import { EmptyState, EmptyStateBody, PageSection } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";

export function NotFound({ what }: { what: string }) {
  return (
    <PageSection isFilled>
      <EmptyState titleText={`${what} not found`} headingLevel="h1">
        <EmptyStateBody>
          It was removed, or you do not have access to it. <Link to="/">Back to the overview</Link>
        </EmptyStateBody>
      </EmptyState>
    </PageSection>
  );
}
