// Settings: about, sites, SSH host keys, enrolment tokens, keys of the appliance.
import { Button, Label } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { change } from "../actions/change";
import { openDialog } from "../actions/dialogs";
import { Secret } from "../actions/forms";
import { RotationPanel } from "../admin/RotationPanel";
import { type Schema, api, unwrap } from "../api/client";
import { useAccount } from "../model/account";
import { dateTime, number } from "../model/format";
import { shellLine } from "../model/shellLine";
import { ListPane } from "../tables/ListPane";
import { t } from "../text/text";
import { FormDialog } from "../ui/FormDialog";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";
import { QueryState } from "../ui/states";
import { type Pane, TabPanes } from "../ui/TabPanes";

const text = (value: unknown) => (typeof value === "string" ? value : "");

function About() {
  const appliance = useQuery({
    queryKey: ["detail", "appliance"],
    queryFn: () => api.GET("/api/v1/appliance").then(unwrap),
    refetchInterval: 10_000,
  });
  const rows = (a: Schema<"Appliance">): [string, string][] => [
    [t("about.version"), a.version],
    [t("about.started"), dateTime(a.started_at)],
    [t("about.clock"), dateTime(a.now)],
    [t("about.database"), a.database],
    [t("about.nodes"), t("about.reachable", { count: a.reachable_nodes, total: a.nodes })],
    [t("about.connections"), number(a.connections)],
    [
      t("about.descriptors"),
      t("about.ofLimit", { count: number(a.descriptors), total: number(a.descriptor_limit) }),
    ],
    [t("about.waitingWrites"), number(a.waiting_writes)],
    [t("about.lag"), `${number(a.loop_lag_p50_ms, 1)} / ${number(a.loop_lag_p99_ms, 1)} ms`],
  ];
  return (
    <Panel title={t("about.title")}>
      <QueryState query={appliance}>{(a) => <Properties properties={rows(a)} />}</QueryState>
    </Panel>
  );
}

function Sites() {
  return (
    <ListPane
      list="sites"
      title="settings.sites"
      actionable={(s) => ({ kind: "sites", id: s.id, name: s.name })}
      columns={[
        { id: "name", label: "field.name", value: (s) => s.name },
        { id: "notes", label: "field.notes", value: (s) => s.notes ?? "" },
      ]}
      create={{
        label: "settings.createSite",
        privilege: "inventory.manage",
        fields: [
          { name: "name", label: "field.name", type: "text", required: true },
          { name: "notes", label: "field.notes", type: "area" },
        ],
        command: (v) =>
          shellLine(["busbar", "site", "create", text(v.name) || "NAME"], { notes: v.notes }),
        send: async (v) =>
          void unwrap(
            await api.POST("/api/v1/sites", {
              body: { name: text(v.name), notes: text(v.notes) },
            }),
          ),
      }}
    />
  );
}

function HostKeys() {
  return (
    <ListPane
      list="hostKeys"
      title="settings.hostKeys"
      columns={[
        { id: "address", label: "settings.address", value: (k) => `${k.address}:${k.port}` },
        { id: "type", label: "people.kind", value: (k) => k.key_type },
        { id: "sha256", label: "settings.fingerprint", value: (k) => `SHA256:${k.sha256}` },
        { id: "by", label: "settings.confirmedBy", value: (k) => k.confirmed_by },
      ]}
      remove={{
        privilege: "fleet.forget_host_key",
        name: (k) => k.address,
        send: async (k) =>
          unwrap(
            await api.DELETE("/api/v1/ssh-host-keys/{key_id}", {
              params: { path: { key_id: k.id } },
            }),
          ),
      }}
    />
  );
}

function openEnrolmentToken() {
  openDialog((close) => (
    <FormDialog
      title={t("settings.enrolment")}
      description={t("settings.enrolmentHelp")}
      fields={[]}
      verb={t("common.create")}
      close={close}
      submit={async () => {
        const made = await change(t("settings.enrolmentMade"), async () =>
          unwrap(await api.POST("/api/v1/enrolment-tokens", { body: {} })),
        );
        return <Secret label="secret.once" value={made.token} />;
      }}
    />
  ));
}

function Keys() {
  return (
    <>
      <Panel title={t("settings.enrolment")}>
        <div className="bb-stack">
          <p>{t("settings.enrolmentHelp")}</p>
          <span>
            <Button variant="secondary" onClick={openEnrolmentToken}>
              {t("settings.enrolmentCreate")}
            </Button>
          </span>
        </div>
      </Panel>
      <RotationPanel kind="ca" />
      <RotationPanel kind="ticket-key" />
    </>
  );
}

const PANES: readonly (Pane & { privilege?: string })[] = [
  { id: "about", label: "about.title", content: () => <About /> },
  { id: "sites", label: "settings.sites", content: () => <Sites /> },
  {
    id: "host-keys",
    label: "settings.hostKeys",
    content: () => <HostKeys />,
    privilege: "fleet.enrol",
  },
  { id: "keys", label: "settings.keys", content: () => <Keys />, privilege: "fleet.rotate_keys" },
];

export default function SettingsPage() {
  const { me } = useAccount();
  const panes = PANES.filter((p) => !p.privilege || me.privileges.includes(p.privilege));
  return (
    <>
      <PageHeader title={t("nav.settings")} labels={<Label isCompact>Busbar</Label>} />
      <TabPanes label={t("nav.settings")} panes={panes} />
    </>
  );
}
