import { QuickAction } from "../actions/QuickAction";
import type { Answer } from "../actions/queries";
import type { Alarm } from "../api/client";
import { t } from "../text/text";

interface AcknowledgeButtonProps {
  alarm: Alarm;
  isLink?: boolean;
  /** The alarm's own `actions`, if its detail has been read. */
  answers?: readonly Answer[];
}

/** Acknowledges an alarm, with a text for its history. A list offers it for active alarms only. */
export function AcknowledgeButton({ alarm, isLink, answers }: AcknowledgeButtonProps) {
  if (!answers && alarm.state !== "active") return null;
  const name = t("form.title", { action: t("alarm.acknowledge"), name: alarm.name });
  return (
    <QuickAction
      target={{ kind: "alarms", id: alarm.id, name: alarm.name }}
      name="acknowledge"
      variant={isLink ? "link" : "secondary"}
      ariaLabel={`${name}, ${alarm.object_name}`}
      {...(answers ? { answers } : {})}
    />
  );
}
