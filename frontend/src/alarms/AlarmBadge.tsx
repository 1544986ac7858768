import { Badge } from "@patternfly/react-core";
import type { Alarm } from "../api/client";
import { countText, worstOf } from "./alarms";

const CLASSES = {
  critical: "bb-alarms bb-alarms--critical",
  warning: "bb-alarms bb-alarms--warning",
  info: "bb-alarms",
};

/** Number of open alarms of an object and below it, with the colour of the worst. */
export function AlarmBadge({ alarms }: { alarms: readonly Alarm[] | undefined }) {
  if (!alarms?.length) return null;
  const text = countText(alarms);
  return (
    <Badge className={CLASSES[worstOf(alarms) ?? "info"]} screenReaderText={text} title={text}>
      {alarms.length}
    </Badge>
  );
}
