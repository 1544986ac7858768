import { Card, CardBody, PageSection } from "@patternfly/react-core";
import { timeZone } from "../format";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { EventsPane } from "./EventsPane";

export default function EventsPage() {
  return (
    <>
      <PageHeader title={t("nav.events")} detail={t("frame.timeZone", { zone: timeZone() })} />
      <PageSection className="bb-stack">
        <Card>
          <CardBody>
            <EventsPane hasFilters />
          </CardBody>
        </Card>
      </PageSection>
    </>
  );
}
