import {
  ActionGroup,
  Alert,
  Button,
  Card,
  CardBody,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
  Title,
} from "@patternfly/react-core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Me, api, unwrap } from "../api/client";
import logo from "../busbar.svg";

export function Login() {
  const cache = useQueryClient();
  const [username, setUsername] = useState("admin");
  const [password, setPassword] = useState("");
  const [fresh, setFresh] = useState<string | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError("");
    try {
      const body = { username, password, ...(fresh ? { new_password: fresh } : {}) };
      const me: Me = unwrap(await api.POST("/api/v1/browser-login", { body }));
      if (me.must_change_password) setFresh("");
      else cache.setQueryData(["me"], me);
    } catch (problem) {
      setError((problem as Error).message);
    }
    setBusy(false);
  }

  return (
    <main className="bb-login">
      <Card className="bb-login__card">
        <CardBody>
          <div className="bb-login__brand">
            <img src={logo} alt="" width={44} height={44} />
            <div>
              <Title headingLevel="h1">Busbar</Title>
              <p className="bb-quiet">GPUs of many servers, over the network</p>
            </div>
          </div>
          <Form onSubmit={submit}>
            {error && <Alert variant="danger" isInline title={error} component="p" />}
            <FormGroup label="User name" fieldId="username">
              <TextInput id="username" value={username} onChange={(_, v) => setUsername(v)} autoComplete="username" isRequired />
            </FormGroup>
            <FormGroup label="Password" fieldId="password">
              <TextInput
                id="password"
                type="password"
                value={password}
                onChange={(_, v) => setPassword(v)}
                autoComplete="current-password"
                isRequired
                autoFocus
              />
              {fresh === null && (
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>The first one-time password is in the appliance's data folder: initial-admin-password.</HelperTextItem>
                  </HelperText>
                </FormHelperText>
              )}
            </FormGroup>
            {fresh !== null && (
              <FormGroup label="Your own password" fieldId="fresh">
                <TextInput id="fresh" type="password" value={fresh} onChange={(_, v) => setFresh(v)} autoComplete="new-password" isRequired autoFocus />
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>The password was one-time. At least 12 characters.</HelperTextItem>
                  </HelperText>
                </FormHelperText>
              </FormGroup>
            )}
            <ActionGroup>
              <Button type="submit" variant="primary" isBlock isLoading={busy} isDisabled={busy}>
                Sign in
              </Button>
            </ActionGroup>
          </Form>
        </CardBody>
      </Card>
    </main>
  );
}
