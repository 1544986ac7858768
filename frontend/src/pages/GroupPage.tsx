// Workspace of a group: its members and role bindings.
import { Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { change } from "../actions/change";
import { QuickAction } from "../actions/QuickAction";
import { removeMember } from "../actions/requests";
import { BindingTable } from "../admin/BindingTable";
import { Detail } from "../admin/useDetail";
import { type Schema, api, readAllPages, unwrap } from "../api/client";
import type { Target } from "../model/kinds";
import { type Column, DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { ask } from "../ui/confirm";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";

type Member = Schema<"GroupMember">;
const nameOf = (m: Member) => m.user ?? m.group ?? "";

function askRemoval(group: Target, member: Member) {
  const [action, name] = [t("action.removeMember"), nameOf(member)];
  ask({
    title: t("confirm.title", { action, name }),
    body: <p>{t("people.memberLoss", { group: group.name })}</p>,
    verb: action,
    run: () => change(t("result.done", { action, name }), () => removeMember(group.id, member.id)),
  });
}

const COLUMNS: Column<Member>[] = [
  { id: "name", label: "field.name", value: nameOf },
  {
    id: "kind",
    label: "people.kind",
    value: (m) => t(m.user ? "kind.users" : "kind.groups"),
  },
];

function RemoveButton({ group, member }: { group: Target; member: Member }) {
  return (
    <Button
      variant="link"
      isInline
      isDanger
      aria-label={t("form.title", { action: t("action.removeMember"), name: nameOf(member) })}
      onClick={() => askRemoval(group, member)}
    >
      {t("action.remove")}
    </Button>
  );
}

function Members({ group }: { group: Target }) {
  const members = useQuery({
    queryKey: ["list", "members", group.id],
    queryFn: () =>
      readAllPages<Member>((cursor) =>
        api
          .GET("/api/v1/groups/{group_id}/members", {
            params: { path: { group_id: group.id }, query: { limit: 500, cursor } },
          })
          .then(unwrap),
      ),
  });
  return (
    <Panel title={t("people.members")} actions={<QuickAction target={group} name="add_member" />}>
      <QueryState query={members}>
        {(rows) => (
          <DataTable
            table="members"
            label={t("people.members")}
            rows={rows}
            columns={COLUMNS}
            rowEnd={(m) => <RemoveButton group={group} member={m} />}
          />
        )}
      </QueryState>
    </Panel>
  );
}

export default function GroupPage() {
  return (
    <Detail
      list="groups"
      kind="groups"
      name={(g) => g.name}
      trail={[[t("nav.access"), "/access?tab=groups"]]}
      panes={(g, target) => [
        { id: "summary", label: "tab.summary", content: () => <Members group={target} /> },
        {
          id: "permissions",
          label: "tab.permissions",
          content: () => <BindingTable filter={{ group: g.name }} />,
        },
      ]}
    />
  );
}
