// Workspace of a user.
import { Label } from "@patternfly/react-core";
import { BindingTable } from "../admin/BindingTable";
import { Detail } from "../admin/useDetail";
import { AllocationTable } from "../allocations/AllocationTable";
import { useRows } from "../api/queries";
import { dateTime } from "../model/format";
import { EventsPane } from "../tasks/EventsPane";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";
import { Loaded } from "../ui/states";

function Allocations({ user }: { user: string }) {
  const own = useRows("allocation").filter((a) => a.owner === user);
  return <AllocationTable title={t("nav.allocations")} allocations={own} />;
}

export default function UserPage() {
  return (
    <Loaded kinds={["allocation", "event"]}>
      <Detail
        list="users"
        kind="users"
        name={(u) => u.username}
        trail={[[t("nav.access"), "/access?tab=users"]]}
        labels={(u) => (
          <Label isCompact status={u.is_active === false ? "warning" : "success"}>
            {t(u.is_active === false ? "people.inactive" : "people.active")}
          </Label>
        )}
        panes={(u) => [
          {
            id: "summary",
            label: "tab.summary",
            content: () => (
              <>
                <Panel title={t("work.properties")}>
                  <Properties
                    properties={[
                      [t("field.email"), u.email],
                      [t("people.kind"), t(u.is_service ? "people.service" : "people.person")],
                      [
                        t("people.mustChange"),
                        t(u.must_change_password ? "common.yes" : "common.no"),
                      ],
                      [t("factor.source"), t(`source.${u.source || "local"}`)],
                      [
                        t("factor.title"),
                        u.second_factor_since ? dateTime(u.second_factor_since) : t("factor.none"),
                      ],
                      [t("node.since"), dateTime(u.created_at)],
                    ]}
                  />
                </Panel>
                <Allocations user={u.username} />
              </>
            ),
          },
          {
            id: "events",
            label: "tab.events",
            content: () => (
              <Panel title={t("dock.events")}>
                <EventsPane fixed={{ actor: u.username }} />
              </Panel>
            ),
          },
          {
            id: "permissions",
            label: "tab.permissions",
            content: () => <BindingTable filter={{ user: u.username }} />,
          },
        ]}
      />
    </Loaded>
  );
}
