// Recent tasks pane, docked below every page.
import { Button, Progress, ProgressSize } from "@patternfly/react-core";
import AngleDownIcon from "@patternfly/react-icons/dist/esm/icons/angle-down-icon";
import AngleUpIcon from "@patternfly/react-icons/dist/esm/icons/angle-up-icon";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type Task, api, idempotencyKey, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { time, humanize } from "../format";

const STORAGE_KEY = "busbar.tasks";
const SHOWN = 30;

function State({ task }: { task: Task }) {
  if (task.state === "running")
    return (
      <Progress
        value={task.progress_percent}
        size={ProgressSize.sm}
        aria-label={`${humanize(task.kind)}, progress`}
      />
    );
  return <span className={`bb-task--${task.state}`}>{task.state}</span>;
}

function CancelButton({ task }: { task: Task }) {
  const cancel = useMutation({
    mutationFn: async () =>
      unwrap(
        await api.POST("/api/v1/tasks/{task_id}/cancel", {
          params: { path: { task_id: task.id } },
          headers: idempotencyKey(),
        }),
      ),
  });
  if (!task.cancellable) return null;
  return (
    <Button
      variant="link"
      isInline
      isLoading={cancel.isPending}
      title={cancel.error?.message}
      isDanger={Boolean(cancel.error)}
      aria-label={`Cancel ${humanize(task.kind)}`}
      onClick={() => cancel.mutate()}
    >
      {cancel.error ? "Not cancelled" : "Cancel"}
    </Button>
  );
}

export function TasksPane() {
  const tasks = useRows("task").slice(0, SHOWN);
  const [open, setOpen] = useState(localStorage.getItem(STORAGE_KEY) !== "closed");
  const running = tasks.filter((t) => t.state === "running").length;
  const toggle = () => {
    localStorage.setItem(STORAGE_KEY, open ? "closed" : "open");
    setOpen(!open);
  };
  return (
    <section className="bb-tasks" aria-label="Recent tasks">
      <div className="bb-tasks__head">
        <h2>Recent tasks</h2>
        <span className="bb-quiet">{running ? `${running} running` : "no running tasks"}</span>
        <Button
          variant="plain"
          size="sm"
          aria-expanded={open}
          aria-label={open ? "Hide recent tasks" : "Show recent tasks"}
          icon={open ? <AngleDownIcon /> : <AngleUpIcon />}
          onClick={toggle}
        />
      </div>
      {open && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        <section className="bb-tasks__list" tabIndex={0} aria-label="List of recent tasks">
          <Table variant="compact" borders={false} aria-label="Recent tasks">
            <Thead>
              <Tr>
                <Th width={20}>Task</Th>
                <Th width={15}>State</Th>
                <Th>Detail</Th>
                <Th width={10}>By</Th>
                <Th width={10}>Started</Th>
                <Th width={10}>Ended</Th>
                <Th screenReaderText="Actions" />
              </Tr>
            </Thead>
            <Tbody>
              {tasks.map((t) => (
                <Tr key={t.id}>
                  <Td dataLabel="Task">{humanize(t.kind)}</Td>
                  <Td dataLabel="State">
                    <State task={t} />
                  </Td>
                  <Td dataLabel="Detail" modifier="truncate">
                    {(t.error as { detail?: string } | null)?.detail ?? t.message}
                  </Td>
                  <Td dataLabel="By">{t.initiator ?? "system"}</Td>
                  <Td dataLabel="Started">{time(t.created_at)}</Td>
                  <Td dataLabel="Ended">{time(t.ended_at)}</Td>
                  <Td dataLabel="Actions" modifier="fitContent">
                    <CancelButton task={t} />
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        </section>
      )}
    </section>
  );
}
