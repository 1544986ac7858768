// Open alarms of one object and of what lies below it.
import { useRows } from "../api/queries";
import type { Target } from "../model/kinds";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Loaded } from "../ui/states";
import { AlarmTable } from "./AlarmTable";
import { alarmsOf, hasAlarms } from "./alarms";

function Own({ target }: { target: Pick<Target, "kind" | "id"> }) {
  const alarms = alarmsOf(useRows("alarm"), target);
  return <AlarmTable alarms={alarms} label={t("alarm.open")} isPlain />;
}

export function ObjectAlarms({ target }: { target: Pick<Target, "kind" | "id"> }) {
  if (!hasAlarms(target.kind)) return null;
  return (
    <Panel title={t("alarm.open")}>
      <Loaded kinds={["alarm"]}>
        <Own target={target} />
      </Loaded>
    </Panel>
  );
}
