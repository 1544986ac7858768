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

interface Typed {
  username: string;
  password: string;
  /** These two are null until the appliance asks for them. */
  newPassword: string | null;
  code: string | null;
}

const NOTHING = { password: "", newPassword: null, code: null };

/** A sign-in step by step: each answer of the appliance says what else it needs. */
function useSignIn(expected: string) {
  const cache = useQueryClient();
  const user = expected || "admin";
  const [typed, setTyped] = useState<Typed>(() => ({ ...NOTHING, username: user }));
  const [passkeyOptions, setPasskeyOptions] = useState<Json | null>(null);
  const [secret, setSecret] = useState<NewSecretValue | null>(null);
  const [signedIn, setSignedIn] = useState<{ me: Me; codes: string[] } | null>(null);
  const put = (fresh: Partial<Typed>) => setTyped((old) => ({ ...old, ...fresh }));

  function enter(me: Me) {
    if (expected && me.username !== expected) location.reload();
    else cache.setQueryData(["me"], me);
  }
  function follow(outcome: Outcome) {
    if (outcome.secret) setSecret(outcome.secret);
    if (outcome.needsCode) put({ code: "" });
    if (outcome.passkeyOptions) setPasskeyOptions(outcome.passkeyOptions);
    if (outcome.needsPassword) setTyped((old) => ({ ...old, newPassword: old.newPassword ?? "" }));
    if (!outcome.me) return;
    if (outcome.recoveryCodes.length === 0) enter(outcome.me);
    else setSignedIn({ me: outcome.me, codes: outcome.recoveryCodes });
  }
  /** Answer with a passkey; the next try needs a new challenge. */
  async function answer(options: Json) {
    setPasskeyOptions(null);
    follow(await signIn({ ...typed, code: null, passkey: await prove(options) }));
  }
  const send = async () => follow(await signIn(typed));
  return { typed, put, passkeyOptions, secret, signedIn, enter, answer, send };
}
type SignIn = ReturnType<typeof useSignIn>;

function Credentials({
  typed,
  put,
  isFirst,
}: Pick<SignIn, "typed" | "put"> & { isFirst: boolean }) {
  return (
    <>
      <FormGroup label={t("login.username")} fieldId="username">
        <TextInput
          id="username"
          value={typed.username}
          onChange={(_, username) => put({ username })}
          autoComplete="username"
          isRequired
        />
      </FormGroup>
      <PasswordField
        id="password"
        label={t("login.password")}
        help={isFirst ? t("login.initial") : undefined}
        value={typed.password}
        onChange={(password) => put({ password })}
        autoFocus
      />
    </>
  );
}

/** Fields that the appliance has asked for: a new password, a second factor or its code. */
function AskedFields({ typed, put, secret }: Pick<SignIn, "typed" | "put" | "secret">) {
  const { newPassword, code } = typed;
  return (
    <>
      {newPassword !== null && (
        <PasswordField
          id="fresh"
          label={t("login.newPassword")}
          help={t("login.newHelp")}
          value={newPassword}
          onChange={(fresh) => put({ newPassword: fresh })}
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
          onChange={(fresh) => put({ code: fresh })}
          autoFocus={newPassword === null}
          help={!secret}
        />
      )}
    </>
  );
}

interface ButtonsProps {
  login: SignIn;
  busy: boolean;
  onError: (message: string) => void;
}

function Buttons({ login, busy, onError }: ButtonsProps) {
  const { passkeyOptions, answer } = login;
  return (
    <ActionGroup>
      <Button type="submit" variant="primary" isBlock isLoading={busy} isDisabled={busy}>
        {t("login.signIn")}
      </Button>
      {passkeyOptions && (
        <PasskeyButton
          label={t("passkey.use")}
          run={() => answer(passkeyOptions)}
          onError={onError}
        />
      )}
    </ActionGroup>
  );
}

function Codes({ login, signedIn }: { login: SignIn; signedIn: { me: Me; codes: string[] } }) {
  return (
    <LoginCard>
      <Title headingLevel="h2">{t("factor.codes")}</Title>
      <RecoveryCodes codes={signedIn.codes} done={() => login.enter(signedIn.me)} />
    </LoginCard>
  );
}

/** Sign-in form; `expected` is the user whose sign-in ended while the console was open. */
export function Login({ expected = "" }: { expected?: string }) {
  const login = useSignIn(expected);
  const { typed, put, secret, signedIn } = login;
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError("");
    try {
      await login.send();
    } catch (problem) {
      setError((problem as Error).message);
      if (typed.code !== null) put({ code: "" });
    }
    setBusy(false);
  }
  if (signedIn) return <Codes {...{ login, signedIn }} />;
  const asked = typed.newPassword !== null || typed.code !== null;
  return (
    <LoginCard>
      <Form onSubmit={(e) => void submit(e)}>
        {expected && <Alert variant="info" isInline title={t("login.again")} component="p" />}
        {error && <Alert variant="danger" isInline title={error} component="p" />}
        <Credentials {...{ typed, put }} isFirst={!asked} />
        <AskedFields {...{ typed, put, secret }} />
        <Buttons {...{ login, busy }} onError={setError} />
      </Form>
      {!asked && <PasskeySignIn enter={login.enter} onError={setError} />}
      {!asked && <ProviderButtons />}
      {!asked && !expected && <ForgottenPassword />}
    </LoginCard>
  );
}
