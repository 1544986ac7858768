// Access: users, groups, roles, role bindings, tokens and audit, as far as the user may see them.
import { AccessPane } from "../admin/AccessPane";
import { AuditPane } from "../admin/AuditPane";
import { BindingsPane, GroupsPane, RolesPane, UsersPane } from "../admin/people";
import { TokensPane } from "../admin/TokensPane";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { TabPanes, type Pane } from "../ui/TabPanes";

type Guarded = Pane & { privilege?: string };
const PANES: readonly Guarded[] = [
  {
    id: "users",
    label: "people.users",
    content: () => <UsersPane />,
    privilege: "accounts.manage",
  },
  {
    id: "groups",
    label: "people.groups",
    content: () => <GroupsPane />,
    privilege: "accounts.manage",
  },
  { id: "roles", label: "people.roles", content: () => <RolesPane /> },
  {
    id: "bindings",
    label: "people.bindings",
    content: () => <BindingsPane />,
    privilege: "members.manage",
  },
  { id: "tokens", label: "people.tokens", content: () => <TokensPane /> },
  { id: "effective", label: "access.effective", content: () => <AccessPane /> },
  { id: "audit", label: "access.audit", content: () => <AuditPane />, privilege: "audit.read" },
];

export default function AccessPage() {
  const { me } = useAccount();
  const panes = PANES.filter((p) => !p.privilege || me.privileges.includes(p.privilege));
  return (
    <>
      <PageHeader title={t("nav.access")} />
      <TabPanes label={t("nav.access")} panes={panes} />
    </>
  );
}
