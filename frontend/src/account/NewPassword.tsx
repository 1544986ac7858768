// A forgotten password: ask for a code by mail, and set a password with the link of the mail.
import {
  ActionGroup,
  Alert,
  Button,
  Form,
  FormGroup,
  TextInput,
  Title,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { Problem, api, unwrap } from "../api/client";
import { t } from "../text/text";
import { LoginCard } from "./LoginCard";
import { PasswordField } from "./PasswordField";
import { readOptions } from "./ProviderButtons";

export const NEW_PASSWORD_PATH = "/new-password";

/** The link of the sign-in page, if the appliance sends mail. */
export function ForgottenPassword() {
  const options = useQuery({ queryKey: ["sign-in-options"], queryFn: readOptions, retry: false });
  if (!options.data?.has_password_resets) return null;
  return (
    <Button variant="link" isBlock component="a" href={NEW_PASSWORD_PATH}>
      {t("reset.forgotten")}
    </Button>
  );
}

/** Return the user and code of the mailed link, and take the code from the address. */
function useLink() {
  const [link] = useState(() => new URLSearchParams(location.hash.slice(1)));
  useEffect(() => {
    history.replaceState(null, "", NEW_PASSWORD_PATH); // the code is a secret
    // A link that is opened in this tab changes the fragment only.
    const reload = () => location.reload();
    window.addEventListener("hashchange", reload);
    return () => window.removeEventListener("hashchange", reload);
  }, []);
  return { user: link.get("user"), code: link.get("code") };
}

interface Typed {
  username: string;
  password: string;
}

/** Ask for a mail, or set the password with the code of one. */
async function send({ username, password }: Typed, code: string | null) {
  if (code === null) unwrap(await api.POST("/api/v1/password-resets", { body: { username } }));
  else
    unwrap(
      await api.POST("/api/v1/password-resets/completion", {
        body: { username, code, new_password: password },
      }),
    );
}

interface FieldsProps {
  typed: Typed;
  put: (fresh: Partial<Typed>) => void;
  hasCode: boolean;
}

function Fields({ typed, put, hasCode }: FieldsProps) {
  return (
    <>
      {!hasCode && <p>{t("reset.help")}</p>}
      <FormGroup label={t("login.username")} fieldId="username">
        <TextInput
          id="username"
          value={typed.username}
          onChange={(_, username) => put({ username })}
          autoComplete="username"
          isRequired
          isDisabled={hasCode}
          autoFocus={!hasCode}
        />
      </FormGroup>
      {hasCode && (
        <PasswordField
          id="fresh"
          label={t("login.newPassword")}
          help={t("reset.newHelp")}
          value={typed.password}
          onChange={(password) => put({ password })}
          isNew
          autoFocus
        />
      )}
    </>
  );
}

const Done = ({ hasCode }: { hasCode: boolean }) => (
  <Alert
    variant={hasCode ? "success" : "info"}
    isInline
    title={t(hasCode ? "reset.done" : "reset.sent")}
    component="p"
  />
);

function Links({ error }: { error: Error | null }) {
  return (
    <>
      {error instanceof Problem && error.status === 401 && (
        <Button variant="link" isBlock component="a" href={NEW_PASSWORD_PATH}>
          {t("reset.another")}
        </Button>
      )}
      <Button variant="link" isBlock component="a" href="/">
        {t("reset.back")}
      </Button>
    </>
  );
}

export function NewPassword() {
  const { user, code } = useLink();
  const hasCode = code !== null;
  const [typed, setTyped] = useState<Typed>({ username: user ?? "", password: "" });
  const [error, setError] = useState<Error | null>(null);
  const [done, setDone] = useState(false);
  const [busy, setBusy] = useState(false);
  const put = (fresh: Partial<Typed>) => setTyped((old) => ({ ...old, ...fresh }));
  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await send(typed, code);
      setDone(true);
    } catch (problem) {
      setError(problem as Error);
    }
    setBusy(false);
  }
  return (
    <LoginCard>
      <Form onSubmit={(e) => void submit(e)}>
        <Title headingLevel="h2">{t("reset.title")}</Title>
        {error && <Alert variant="danger" isInline title={error.message} component="p" />}
        {done ? <Done hasCode={hasCode} /> : <Fields {...{ typed, put, hasCode }} />}
        <ActionGroup>
          {!done && (
            <Button type="submit" variant="primary" isBlock isLoading={busy} isDisabled={busy}>
              {t(hasCode ? "reset.set" : "reset.send")}
            </Button>
          )}
          <Links error={error} />
        </ActionGroup>
      </Form>
    </LoginCard>
  );
}
