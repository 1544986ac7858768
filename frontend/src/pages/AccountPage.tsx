// My account: profile, password, tokens, and what I may do.
import { PasswordPanel } from "../account/PasswordPanel";
import { PasskeysPanel } from "../account/PasskeysPanel";
import { SecondFactorPanel } from "../account/SecondFactorPanel";
import { AccessPane } from "../admin/AccessPane";
import { roleText } from "../admin/place";
import { TokensPane } from "../admin/TokensPane";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";
import { type Pane, TabPanes } from "../ui/TabPanes";

function Profile() {
  const { me } = useAccount();
  return (
    <>
      <Panel title={t("work.properties")}>
        <Properties
          properties={[
            [t("login.username"), me.username],
            [t("people.roles"), me.roles.map(roleText).join("; ")],
            [t("factor.source"), t(`source.${me.source || "local"}`)],
          ]}
        />
      </Panel>
      {!me.source && <PasswordPanel account={me} />}
      <SecondFactorPanel />
      <PasskeysPanel />
    </>
  );
}

const PANES: readonly Pane[] = [
  { id: "profile", label: "account.profile", content: () => <Profile /> },
  { id: "tokens", label: "people.tokens", content: () => <TokensPane /> },
  { id: "effective", label: "access.effective", content: () => <AccessPane /> },
];

export default function AccountPage() {
  const { me } = useAccount();
  return (
    <>
      <PageHeader title={t("frame.account")} detail={me.username} />
      <TabPanes label={t("frame.account")} panes={PANES} />
    </>
  );
}
