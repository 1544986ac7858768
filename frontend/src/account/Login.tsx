import {
  ActionGroup,
  Alert,
  Button,
  Form,
  FormGroup,
  TextInput,
  Title,
} from "@patternfly/react-core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { Me } from "../api/client";
import { t } from "../text/text";
import { CodeField } from "./CodeField";
import { LoginCard } from "./LoginCard";
import { PasskeyButton, PasskeySignIn } from "./PasskeyButton";
import { NewSecret, type NewSecretValue, RecoveryCodes } from "./NewSecret";
import { PasswordField } from "./PasswordField";
import { ForgottenPassword } from "./NewPassword";
import { ProviderButtons } from "./ProviderButtons";
import { type Json, prove } from "./passkeys";
import { type Outcome, signIn } from "./signIn";

/** Sign-in form; `expected` is the user whose sign-in ended while the console was open. */
export function Login({ expected = "" }: { expected?: string }) {
  const cache = useQueryClient();
  const [username, setUsername] = useState(expected || "admin");
  const [password, setPassword] = useState("");
  const [newPassword, setNewPassword] = useState<string | null>(null);
  const [code, setCode] = useState<string | null>(null);
  const [passkeyOptions, setPasskeyOptions] = useState<Json | null>(null);
  const [secret, setSecret] = useState<NewSecretValue | null>(null);
  const [signedIn, setSignedIn] = useState<{ me: Me; codes: string[] } | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  function enter(me: Me) {
    if (expected && me.username !== expected) location.reload();
    else cache.setQueryData(["me"], me);
  }
  function follow(outcome: Outcome) {
    if (outcome.secret) setSecret(outcome.secret);
    if (outcome.needsCode) setCode("");
    if (outcome.passkeyOptions) setPasskeyOptions(outcome.passkeyOptions);
    if (outcome.needsPassword) setNewPassword((before) => before ?? "");
    if (!outcome.me) return;
    if (outcome.recoveryCodes.length === 0) enter(outcome.me);
    else setSignedIn({ me: outcome.me, codes: outcome.recoveryCodes });
  }
  /** Answer with a passkey; the next try needs a new challenge. */
  async function answer(options: Json) {
    setPasskeyOptions(null);
    follow(await signIn({ username, password, newPassword, passkey: await prove(options) }));
  }
  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError("");
    try {
      follow(await signIn({ username, password, newPassword, code }));
    } catch (problem) {
      setError((problem as Error).message);
      if (code !== null) setCode("");
    }
    setBusy(false);
  }

  if (signedIn)
    return (
      <LoginCard>
        <Title headingLevel="h2">{t("factor.codes")}</Title>
        <RecoveryCodes codes={signedIn.codes} done={() => enter(signedIn.me)} />
      </LoginCard>
    );
  const asked = newPassword !== null || code !== null;
  return (
    <LoginCard>
      <Form onSubmit={(e) => void submit(e)}>
        {expected && <Alert variant="info" isInline title={t("login.again")} component="p" />}
        {error && <Alert variant="danger" isInline title={error} component="p" />}
        <FormGroup label={t("login.username")} fieldId="username">
          <TextInput
            id="username"
            value={username}
            onChange={(_, v) => setUsername(v)}
            autoComplete="username"
            isRequired
          />
        </FormGroup>
        <PasswordField
          id="password"
          label={t("login.password")}
          help={asked ? undefined : t("login.initial")}
          value={password}
          onChange={setPassword}
          autoFocus
        />
        {newPassword !== null && (
          <PasswordField
            id="fresh"
            label={t("login.newPassword")}
            help={t("login.newHelp")}
            value={newPassword}
            onChange={setNewPassword}
            isNew
            autoFocus
          />
        )}
        {secret && (
          <>
            <p>{t("factor.required")}</p>
            <NewSecret value={secret} />
          </>
        )}
        {code !== null && (
          <CodeField
            id="code"
            value={code}
            onChange={setCode}
            autoFocus={newPassword === null}
            help={!secret}
          />
        )}
        <ActionGroup>
          <Button type="submit" variant="primary" isBlock isLoading={busy} isDisabled={busy}>
            {t("login.signIn")}
          </Button>
          {passkeyOptions && (
            <PasskeyButton
              label={t("passkey.use")}
              run={() => answer(passkeyOptions)}
              onError={setError}
            />
          )}
        </ActionGroup>
      </Form>
      {!asked && <PasskeySignIn enter={enter} onError={setError} />}
      {!asked && <ProviderButtons />}
      {!asked && !expected && <ForgottenPassword />}
    </LoginCard>
  );
}
