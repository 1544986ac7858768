// Workspace of a user.
import { Label } from "@patternfly/react-core";
import { BindingTable } from "../admin/BindingTable";
import { Detail } from "../admin/useDetail";
import { AllocationTable } from "../allocations/AllocationTable";
import type { RowOf } from "../api/lists";
import { useRows } from "../api/queries";
import { dateTime } from "../model/format";
import { EventsPane } from "../tasks/EventsPane";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Properties, type Property } from "../ui/Properties";
import { Loaded } from "../ui/states";
import type { Pane } from "../ui/TabPanes";

function Allocations({ user }: { user: string }) {
  const own = useRows("allocation").filter((a) => a.owner === user);
  return <AllocationTable title={t("nav.allocations")} allocations={own} />;
}

type User = RowOf<"users">;

const properties = (u: User): Property[] => [
  [t("field.email"), u.email],
  [t("people.kind"), t(u.is_service ? "people.service" : "people.person")],
  [t("people.mustChange"), t(u.must_change_password ? "common.yes" : "common.no")],
  [t("factor.source"), t(`source.${u.source || "local"}`)],
  [t("factor.title"), u.second_factor_since ? dateTime(u.second_factor_since) : t("factor.none")],
  [t("node.since"), dateTime(u.created_at)],
];

function Summary({ user }: { user: User }) {
  return (
    <>
      <Panel title={t("work.properties")}>
        <Properties properties={properties(user)} />
      </Panel>
      <Allocations user={user.username} />
    </>
  );
}

const panesOf = (user: User): Pane[] => [
  { id: "summary", label: "tab.summary", content: () => <Summary user={user} /> },
  {
    id: "events",
    label: "tab.events",
    content: () => (
      <Panel title={t("dock.events")}>
        <EventsPane fixed={{ actor: user.username }} />
      </Panel>
    ),
  },
  {
    id: "permissions",
    label: "tab.permissions",
    content: () => <BindingTable filter={{ user: user.username }} />,
  },
];

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
        panes={panesOf}
      />
    </Loaded>
  );
}
