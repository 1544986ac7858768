// Alarm definitions with their form. Those of the product are changed and disabled, not deleted.
import { Label } from "@patternfly/react-core";
import { FIELDS, requestOf, valuesOf } from "../actions/definitionForm";
import { type AlarmDefinition, api, unwrap } from "../api/client";
import type { Actionable } from "../model/kinds";
import { ListPane } from "../tables/ListPane";
import type { Column } from "../tables/DataTable";
import { coded, t } from "../text/text";
import { SeverityLabel } from "./AlarmTable";

const placeOf = (d: AlarmDefinition) => d.site ?? d.node ?? d.gpu ?? d.pool;
const stateOf = (d: AlarmDefinition) => t(d.enabled ? "alarm.enabled" : "alarm.disabled");
const COLUMNS: readonly Column<AlarmDefinition>[] = [
  {
    id: "name",
    label: "field.name",
    value: (d) => d.name,
    cell: (d) => (
      <>
        <bdi>{d.name}</bdi> {d.is_builtin && <Label isCompact>{t("alarm.builtin")}</Label>}
      </>
    ),
  },
  {
    id: "severity",
    isShort: true,
    label: "alarm.severity",
    value: (d) => d.severity,
    cell: (d) => <SeverityLabel alarm={d} />,
  },
  { id: "kind", isShort: true, label: "alarmField.object_kind", value: (d) => d.object_kind },
  {
    id: "condition",
    isShort: true,
    label: "alarmField.condition",
    value: (d) => coded("condition", d.condition, d.condition),
  },
  { id: "place", label: "alarmField.place", value: (d) => placeOf(d) ?? t("alarm.everywhere") },
  { id: "enabled", isShort: true, label: "alarm.state", value: stateOf },
];

const actionableOf = (d: AlarmDefinition): Actionable => ({
  kind: "alarm-definitions",
  id: d.id,
  name: d.name,
  state: d.enabled ? "enabled" : "disabled",
  version: d.version,
});

export function DefinitionsPane() {
  return (
    <ListPane
      list="alarmDefinitions"
      title="alarm.definitions"
      columns={COLUMNS}
      empty="alarm.noDefinitions"
      actionable={actionableOf}
      hasBulk
      create={{
        label: "alarm.createDefinition",
        privilege: "alarms.manage",
        fields: FIELDS,
        initial: { ...valuesOf({}), severity: "warning", clear_after_seconds: "60" },
        send: async (v) =>
          void unwrap(await api.POST("/api/v1/alarm-definitions", { body: requestOf(v) })),
      }}
    />
  );
}
