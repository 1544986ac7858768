// My password: change it with the present one.
import { Alert, Button, Form } from "@patternfly/react-core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { change } from "../actions/change";
import { type Me, type Schema, api, unwrap } from "../api/client";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { CodeField } from "./CodeField";
import { PasswordField } from "./PasswordField";

const EMPTY = { password: "", fresh: "", code: "" };

function usePasswordChange() {
  const cache = useQueryClient();
  const [typed, setTyped] = useState(EMPTY);
  const save = useMutation({
    mutationFn: (body: Schema<"Login">) =>
      change(t("account.passwordChanged"), async () =>
        unwrap(await api.POST("/api/v1/browser-login", { body })),
      ),
    onSuccess: (me) => {
      cache.setQueryData(["me"], me);
      setTyped(EMPTY);
    },
  });
  const put = (more: Partial<typeof EMPTY>) => setTyped((old) => ({ ...old, ...more }));
  return { typed, put, save };
}

export function PasswordPanel({ account }: { account: Me }) {
  const { username } = account;
  const hasCode = Boolean(account.second_factor_since);
  const { typed, put, save } = usePasswordChange();
  const { password, fresh, code } = typed;
  const isPossible = password && fresh && (!hasCode || code) && !save.isPending;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    save.mutate({ username, password, new_password: fresh, ...(hasCode ? { code } : {}) });
  };
  return (
    <Panel title={t("account.password")}>
      <Form onSubmit={submit} className="bb-narrow">
        <p>{t("account.passwordHelp")}</p>
        {save.error && <Alert variant="danger" isInline component="p" title={save.error.message} />}
        <PasswordField
          id="present"
          label={t("account.present")}
          value={password}
          onChange={(v) => put({ password: v })}
          isMarked
        />
        <PasswordField
          id="new"
          label={t("login.newPassword")}
          value={fresh}
          onChange={(v) => put({ fresh: v })}
          isNew
          isMarked
        />
        {hasCode && (
          <CodeField id="password-code" value={code} onChange={(v) => put({ code: v })} help />
        )}
        <Button type="submit" variant="primary" isLoading={save.isPending} isDisabled={!isPossible}>
          {t("account.change")}
        </Button>
      </Form>
    </Panel>
  );
}
