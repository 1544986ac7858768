// Table of tasks: what, on which object, by whom, how far, and why it failed.
import {
  Button,
  Modal,
  ModalBody,
  ModalHeader,
  Progress,
  ProgressSize,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { openDialog } from "../actions/dialogs";
import { QuickAction } from "../actions/QuickAction";
import { type Task, api, readAllPages, unwrap } from "../api/client";
import { dateTime, humanize, time } from "../model/format";
import { PathLink } from "../tables/ObjectLink";
import { coded, t } from "../text/text";
import { QueryState } from "../ui/states";

export const taskName = (task: Task) => coded("task", task.kind, humanize(task.kind));
export const taskReason = (task: Task) =>
  (task.error as { detail?: string } | null)?.detail ?? task.message ?? "";

function State({ task }: { task: Task }) {
  const state = task.state ?? "queued";
  if (state === "running")
    return (
      <Progress
        value={task.progress_percent}
        size={ProgressSize.sm}
        aria-label={t("task.progress", { name: taskName(task) })}
      />
    );
  return <span className={`bb-task--${state}`}>{coded("taskState", state, state)}</span>;
}

function TaskLog({ task, close }: { task: Task; close: () => void }) {
  const log = useQuery({
    queryKey: ["detail", "task", task.id, "log"],
    queryFn: () =>
      readAllPages((cursor) =>
        api
          .GET("/api/v1/tasks/{task_id}/log", {
            params: { path: { task_id: task.id }, query: { limit: 500, cursor } },
          })
          .then(unwrap),
      ),
  });
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="task-title">
      <ModalHeader title={taskName(task)} labelId="task-title" description={taskReason(task)} />
      <ModalBody tabIndex={0}>
        <QueryState query={log}>
          {(lines) =>
            lines.length === 0 ? (
              <p className="bb-quiet">{t("task.noLog")}</p>
            ) : (
              <ol className="bb-log">
                {lines.map((line) => (
                  <li key={line.id}>
                    <time dateTime={line.created_at}>{dateTime(line.created_at)}</time>{" "}
                    {line.message}
                  </li>
                ))}
              </ol>
            )
          }
        </QueryState>
      </ModalBody>
    </Modal>
  );
}

export const openTaskLog = (task: Task) =>
  openDialog((close) => <TaskLog task={task} close={close} />);

const OPEN_STATES = ["queued", "running"];

function CancelButton({ task }: { task: Task }) {
  if (!OPEN_STATES.includes(task.state ?? "queued")) return null;
  const name = taskName(task);
  return (
    <QuickAction
      target={{ kind: "tasks", id: task.id, name }}
      name="cancel"
      variant="link"
      ariaLabel={t("task.cancel", { name })}
    />
  );
}

function TaskRow({ task }: { task: Task }) {
  return (
    <Tr>
      <Td dataLabel={t("task.task")}>
        <Button variant="link" isInline onClick={() => openTaskLog(task)}>
          {taskName(task)}
        </Button>
      </Td>
      <Td dataLabel={t("task.target")}>
        <PathLink path={task.path} />
      </Td>
      <Td dataLabel={t("task.state")}>
        <State task={task} />
      </Td>
      <Td dataLabel={t("task.detail")} className="bb-wrap">
        {taskReason(task)}
      </Td>
      <Td dataLabel={t("task.by")}>{task.initiator ?? t("common.system")}</Td>
      <Td dataLabel={t("task.started")}>{time(task.created_at)}</Td>
      <Td dataLabel={t("task.ended")}>{time(task.ended_at)}</Td>
      <Td dataLabel={t("common.actions")}>
        <CancelButton task={task} />
      </Td>
    </Tr>
  );
}

export function TaskTable({ tasks }: { tasks: Task[] }) {
  if (tasks.length === 0) return <p className="bb-quiet bb-tab">{t("task.none")}</p>;
  return (
    <Table variant="compact" borders={false} aria-label={t("dock.recentTasks")}>
      <Thead>
        <Tr>
          <Th width={15}>{t("task.task")}</Th>
          <Th width={15}>{t("task.target")}</Th>
          <Th width={10}>{t("task.state")}</Th>
          <Th>{t("task.detail")}</Th>
          <Th width={10}>{t("task.by")}</Th>
          <Th className="bb-time">{t("task.started")}</Th>
          <Th className="bb-time">{t("task.ended")}</Th>
          <Th className="bb-cancel" screenReaderText={t("common.actions")} />
        </Tr>
      </Thead>
      <Tbody>
        {tasks.map((task) => (
          <TaskRow key={task.id} task={task} />
        ))}
      </Tbody>
    </Table>
  );
}
