// Alarms, tasks and events of one object, also of what lies below it.
import { ObjectAlarms } from "../alarms/ObjectAlarms";
import { useRows } from "../api/queries";
import type { Target } from "../model/kinds";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Loaded } from "../ui/states";
import { EventsPane } from "./EventsPane";
import { TaskTable } from "./TaskTable";

function OwnTasks({ id }: { id: string }) {
  const tasks = useRows("task").filter((x) => x.path.includes(id));
  return <TaskTable tasks={tasks} />;
}

export function ObjectActivity({ target }: { target: Pick<Target, "kind" | "id"> }) {
  return (
    <>
      <ObjectAlarms target={target} />
      <Panel title={t("dock.tasks")}>
        <Loaded kinds={["task"]}>
          <OwnTasks id={target.id} />
        </Loaded>
      </Panel>
      <Panel title={t("dock.events")}>
        <EventsPane
          fixed={
            target.kind === "nodes" ? { path: `nodes/${target.id}` } : { object_id: target.id }
          }
        />
      </Panel>
    </>
  );
}
