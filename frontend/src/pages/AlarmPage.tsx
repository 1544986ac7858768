// One alarm with its history.
import { PageSection } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { AcknowledgeButton } from "../alarms/AcknowledgeButton";
import { AlarmObject, SeverityLabel } from "../alarms/AlarmTable";
import { type Alarm, api, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { dateTime } from "../model/format";
import { coded, t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties, type Property } from "../ui/Properties";
import { QueryState } from "../ui/states";

const at = (alarm_id: string) => ({ params: { path: { alarm_id } } });

function properties(a: Alarm): Property[] {
  const { acknowledged_at: time, acknowledged_by: name } = a;
  return [
    [t("alarm.object"), <AlarmObject key="object" alarm={a} />],
    [t("alarm.state"), coded("alarmState", a.state ?? "", a.state ?? "")],
    [t("alarm.message"), a.message],
    [t("alarm.raised"), dateTime(a.raised_at)],
    [
      t("alarm.acknowledged"),
      time ? t("alarm.acknowledgedBy", { time: dateTime(time), name: name ?? "" }) : "–",
    ],
    [t("alarm.cleared"), a.cleared_at ? dateTime(a.cleared_at) : "–"],
  ];
}

function History({ alarm }: { alarm: Alarm }) {
  const history = useQuery({
    queryKey: ["detail", "alarm", alarm.id, "history", alarm.version],
    queryFn: () => api.GET("/api/v1/alarms/{alarm_id}/history", at(alarm.id)).then(unwrap),
    refetchInterval: 10_000,
  });
  return (
    <Panel title={t("alarm.history")}>
      <QueryState query={history}>
        {(page) => (
          <Table variant="compact" aria-label={t("alarm.history")}>
            <Thead>
              <Tr>
                <Th width={20}>{t("event.time")}</Th>
                <Th width={15}>{t("event.kind")}</Th>
                <Th width={15}>{t("event.actor")}</Th>
                <Th>{t("event.message")}</Th>
              </Tr>
            </Thead>
            <Tbody>
              {page.items.map((step) => (
                <Tr key={step.id}>
                  <Td dataLabel={t("event.time")}>{dateTime(step.created_at)}</Td>
                  <Td dataLabel={t("event.kind")}>{coded("alarmStep", step.kind, step.kind)}</Td>
                  <Td dataLabel={t("event.actor")}>{step.actor}</Td>
                  <Td dataLabel={t("event.message")}>{step.message}</Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
      </QueryState>
    </Panel>
  );
}

export default function AlarmPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const live = useRows("alarm").find((a) => a.id === id)?.version;
  const query = useQuery({
    queryKey: ["detail", "alarm", id],
    queryFn: () => api.GET("/api/v1/alarms/{alarm_id}", at(id)).then(unwrap),
  });
  const { refetch } = query;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another version, or its end, is the cause
  useEffect(() => void refetch(), [live, refetch]);
  return (
    <QueryState query={query}>
      {(alarm) => (
        <>
          <PageHeader
            title={alarm.name}
            trail={[[t("nav.alarms"), "/alarms"]]}
            labels={<SeverityLabel alarm={alarm} />}
            actions={<AcknowledgeButton alarm={alarm} answers={alarm.actions} />}
          />
          <PageSection className="bb-stack">
            <Panel title={t("work.properties")}>
              <Properties properties={properties(alarm)} />
            </Panel>
            <History alarm={alarm} />
          </PageSection>
        </>
      )}
    </QueryState>
  );
}
