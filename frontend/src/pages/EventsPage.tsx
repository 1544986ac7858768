import { Card, CardBody, PageSection } from "@patternfly/react-core";
import { timeZone } from "../model/format";
import { EventsPane } from "../tasks/EventsPane";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";

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
