import { EmptyState, EmptyStateBody, PageSection } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";

export function NotFound({ what }: { what: string }) {
  return (
    <PageSection isFilled>
      <EmptyState titleText={`There is no such ${what}`} headingLevel="h1">
        <EmptyStateBody>
          It was removed, or you may not see it. <Link to="/">Back to the overview</Link>
        </EmptyStateBody>
      </EmptyState>
    </PageSection>
  );
}
