// Drawer over the workspace: alarms to acknowledge, and own tasks that failed.
import {
  Button,
  NotificationDrawer,
  NotificationDrawerBody,
  NotificationDrawerHeader,
  NotificationDrawerList,
  NotificationDrawerListItem,
  NotificationDrawerListItemBody,
  NotificationDrawerListItemHeader,
} from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { AcknowledgeButton } from "../alarms/AcknowledgeButton";
import { AlarmObject, SeverityLabel } from "../alarms/AlarmTable";
import { STATUS } from "../alarms/alarms";
import type { Alarm, Task } from "../api/client";
import { dateTime } from "../model/format";
import { PathLink } from "../tables/ObjectLink";
import { openTaskLog, taskName, taskReason } from "../tasks/TaskTable";
import { counted, t } from "../text/text";
import { Loaded, StateBlock } from "../ui/states";
import { type Notices, SHOWN } from "./notices";

interface ItemProps {
  variant: "danger" | "warning" | "info";
  title: string;
  time: string;
  action: ReactNode;
  children: ReactNode;
}

function Item({ variant, title, time, action, children }: ItemProps) {
  return (
    <NotificationDrawerListItem
      variant={variant}
      isHoverable={false}
      tabIndex={-1}
      readStateScreenReaderText={t("notices.isUnread")}
    >
      <NotificationDrawerListItemHeader variant={variant} title={title} actionHasNoOffset>
        {action}
      </NotificationDrawerListItemHeader>
      <NotificationDrawerListItemBody timestamp={time} className="bb-wrap">
        {children}
      </NotificationDrawerListItemBody>
    </NotificationDrawerListItem>
  );
}

function AlarmItem({ alarm }: { alarm: Alarm }) {
  return (
    <Item
      variant={STATUS[alarm.severity]}
      title={alarm.name}
      time={t("notices.since", { time: dateTime(alarm.raised_at) })}
      action={<AcknowledgeButton alarm={alarm} isLink />}
    >
      <SeverityLabel alarm={alarm} /> <AlarmObject alarm={alarm} />
      <div>{alarm.message}</div>
    </Item>
  );
}

function FailureItem({ task }: { task: Task }) {
  const title = t("notices.failed", { name: taskName(task) });
  return (
    <Item
      variant="danger"
      title={title}
      time={dateTime(task.ended_at)}
      action={
        <Button
          variant="link"
          isInline
          aria-label={`${t("notices.log")}: ${taskName(task)}`}
          onClick={() => openTaskLog(task)}
        >
          {t("notices.log")}
        </Button>
      }
    >
      <PathLink path={task.path} />
      <div>{taskReason(task)}</div>
    </Item>
  );
}

function Failures({ failures }: Notices) {
  if (failures.length === 0) return null;
  return (
    <NotificationDrawerList aria-label={t("notices.failures")}>
      {failures.slice(0, SHOWN).map((task) => (
        <FailureItem key={task.id} task={task} />
      ))}
    </NotificationDrawerList>
  );
}

function Alarms({ alarms, count }: Notices) {
  if (count === 0) return <StateBlock title={t("notices.none")} body={t("notices.noneBody")} />;
  return (
    <>
      {alarms.length > 0 && (
        <NotificationDrawerList aria-label={t("alarm.open")}>
          {alarms.slice(0, SHOWN).map((alarm) => (
            <AlarmItem key={alarm.id} alarm={alarm} />
          ))}
        </NotificationDrawerList>
      )}
      {alarms.length > SHOWN && (
        <p className="bb-notices__more">
          <Link to="/alarms">{t("notices.all", { count: alarms.length })}</Link>
        </p>
      )}
    </>
  );
}

/** Close with Escape, unless it belongs to a dialog or menu above the drawer. */
function useEscape(close: () => void) {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.key === "Escape" && !document.querySelector('[role="dialog"], [role="menu"]')) close();
    };
    window.addEventListener("keydown", onKey, true);
    return () => window.removeEventListener("keydown", onKey, true);
  }, [close]);
}

export function NoticeDrawer({ notices, close }: { notices: Notices; close: () => void }) {
  const section = useRef<HTMLElement>(null);
  useEscape(close);
  useEffect(() => section.current?.focus(), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the button of a notice may go with it
  useEffect(() => {
    if (document.activeElement === document.body) section.current?.focus();
  }, [notices.count]);
  return (
    <section ref={section} tabIndex={-1} aria-label={t("notices.title")} className="bb-notices">
      <NotificationDrawer>
        <NotificationDrawerHeader
          title={t("notices.title")}
          customText={counted("notices.unread", notices.count)}
          closeButtonAriaLabel={t("common.close")}
          onClose={close}
        />
        <NotificationDrawerBody tabIndex={0}>
          <Loaded kinds={["task"]}>
            <Failures {...notices} />
          </Loaded>
          <Loaded kinds={["alarm"]}>
            <Alarms {...notices} />
          </Loaded>
        </NotificationDrawerBody>
      </NotificationDrawer>
    </section>
  );
}
