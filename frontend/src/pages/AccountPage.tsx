// My account: profile, password, tokens, and what I may do.
import { Alert, Button, Form, FormGroup, TextInput } from "@patternfly/react-core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { CodeField } from "../account/CodeField";
import { PasskeysPanel } from "../account/PasskeysPanel";
import { SecondFactorPanel } from "../account/SecondFactorPanel";
import { change } from "../actions/change";
import { AccessPane } from "../admin/AccessPane";
import { roleText } from "../admin/place";
import { TokensPane } from "../admin/people";
import { type Me, api, unwrap } from "../api/client";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";
import { TabPanes } from "../ui/TabPanes";

function Password({ account }: { account: Me }) {
  const { username } = account;
  const hasCode = Boolean(account.second_factor_since);
  const cache = useQueryClient();
  const [password, setPassword] = useState("");
  const [fresh, setFresh] = useState("");
  const [code, setCode] = useState("");
  const save = useMutation({
    mutationFn: () =>
      change(t("account.passwordChanged"), async () =>
        unwrap(
          await api.POST("/api/v1/browser-login", {
            body: { username, password, new_password: fresh, ...(hasCode ? { code } : {}) },
          }),
        ),
      ),
    onSuccess: (me) => {
      cache.setQueryData(["me"], me);
      setPassword("");
      setFresh("");
      setCode("");
    },
  });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    save.mutate();
  };
  return (
    <Panel title={t("account.password")}>
      <Form onSubmit={submit} className="bb-narrow">
        <p>{t("account.passwordHelp")}</p>
        {save.error && <Alert variant="danger" isInline component="p" title={save.error.message} />}
        <FormGroup label={t("account.present")} fieldId="present" isRequired>
          <TextInput
            id="present"
            type="password"
            autoComplete="current-password"
            value={password}
            onChange={(_, v) => setPassword(v)}
          />
        </FormGroup>
        <FormGroup label={t("login.newPassword")} fieldId="new" isRequired>
          <TextInput
            id="new"
            type="password"
            autoComplete="new-password"
            value={fresh}
            onChange={(_, v) => setFresh(v)}
          />
        </FormGroup>
        {hasCode && <CodeField id="password-code" value={code} onChange={setCode} help />}
        <Button
          type="submit"
          variant="primary"
          isLoading={save.isPending}
          isDisabled={!password || !fresh || (hasCode && !code) || save.isPending}
        >
          {t("account.change")}
        </Button>
      </Form>
    </Panel>
  );
}

export default function AccountPage() {
  const { me } = useAccount();
  return (
    <>
      <PageHeader title={t("frame.account")} detail={me.username} />
      <TabPanes
        label={t("frame.account")}
        panes={[
          {
            id: "profile",
            label: "account.profile",
            content: () => (
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
                {!me.source && <Password account={me} />}
                <SecondFactorPanel />
                <PasskeysPanel />
              </>
            ),
          },
          { id: "tokens", label: "people.tokens", content: () => <TokensPane /> },
          { id: "effective", label: "access.effective", content: () => <AccessPane /> },
        ]}
      />
    </>
  );
}
