// Bell in the masthead with the number of unread notices.
import { NotificationBadge } from "@patternfly/react-core";
import { counted, t } from "../text/text";
import type { Notices } from "./notices";

interface NoticeBellProps {
  notices: Notices;
  isOpen: boolean;
  toggle: () => void;
}

export const BELL = "notices-bell";

export function NoticeBell({ notices, isOpen, toggle }: NoticeBellProps) {
  const { alarms, failures, count } = notices;
  const isUrgent = failures.length > 0 || alarms.some((a) => a.severity === "critical");
  return (
    <NotificationBadge
      id={BELL}
      variant={isUrgent ? "attention" : count ? "unread" : "read"}
      count={count}
      isExpanded={isOpen}
      aria-label={`${t("notices.title")}, ${counted("notices.unread", count)}`}
      onClick={toggle}
    />
  );
}
