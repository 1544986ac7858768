import { PageSection, Title } from "@patternfly/react-core";
import { useRows } from "../api/queries";
import { EventTable } from "./EventTable";

export function EventsPage() {
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Events</Title>
      </PageSection>
      <PageSection className="bb-stack">
        <EventTable events={useRows("event")} />
      </PageSection>
    </>
  );
}
