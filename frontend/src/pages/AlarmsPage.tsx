// Alarms: open ones, cleared ones, and the definitions.
import { useQuery } from "@tanstack/react-query";
import { AlarmTable } from "../alarms/AlarmTable";
import { rankOf } from "../alarms/alarms";
import { DefinitionsPane } from "../alarms/DefinitionsPane";
import { api, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { useAccount } from "../model/account";
import { timeZone } from "../model/format";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Loaded, QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const PAST = 200;

function Open() {
  const alarms = [...useRows("alarm")].sort((a, b) => rankOf(a) - rankOf(b));
  return <AlarmTable alarms={alarms} label={t("alarm.open")} />;
}

function Past() {
  const past = useQuery({
    queryKey: ["detail", "alarms", "cleared"],
    queryFn: () =>
      api.GET("/api/v1/alarms", { params: { query: { open: false, limit: PAST } } }).then(unwrap),
    refetchInterval: 30_000,
  });
  return (
    <QueryState query={past}>
      {(page) => <AlarmTable alarms={page.items} label={t("alarm.past")} isPast />}
    </QueryState>
  );
}

export default function AlarmsPage() {
  const { me } = useAccount();
  const panes: Pane[] = [
    {
      id: "open",
      label: "alarm.open",
      content: () => (
        <Panel title={t("alarm.open")}>
          <Loaded kinds={["alarm"]}>
            <Open />
          </Loaded>
        </Panel>
      ),
    },
    {
      id: "cleared",
      label: "alarm.past",
      content: () => (
        <Panel title={t("alarm.past")}>
          <Past />
        </Panel>
      ),
    },
  ];
  if (me.privileges.includes("alarms.manage"))
    panes.push({
      id: "definitions",
      label: "alarm.definitions",
      content: () => <DefinitionsPane />,
    });
  return (
    <>
      <PageHeader title={t("nav.alarms")} detail={t("frame.timeZone", { zone: timeZone() })} />
      <TabPanes label={t("nav.alarms")} panes={panes} />
    </>
  );
}
