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
  const [newPassword, setNewPassword] = useState<string | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError("");
    try {
      const body = { username, password, ...(newPassword ? { new_password: newPassword } : {}) };
      const me: Me = unwrap(await api.POST("/api/v1/browser-login", { body }));
      if (me.must_change_password) setNewPassword("");
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
              <p className="bb-quiet">Pooled GPUs over the network</p>
            </div>
          </div>
          <Form onSubmit={submit}>
            {error && <Alert variant="danger" isInline title={error} component="p" />}
            <FormGroup label="User name" fieldId="username">
              <TextInput
                id="username"
                value={username}
                onChange={(_, v) => setUsername(v)}
                autoComplete="username"
                isRequired
              />
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
              {newPassword === null && (
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>
                      The appliance prints the initial one-time password at its first start and
                      stores it in its data folder as initial-admin-password.
                    </HelperTextItem>
                  </HelperText>
                </FormHelperText>
              )}
            </FormGroup>
            {newPassword !== null && (
              <FormGroup label="New password" fieldId="fresh">
                <TextInput
                  id="fresh"
                  type="password"
                  value={newPassword}
                  onChange={(_, v) => setNewPassword(v)}
                  autoComplete="new-password"
                  isRequired
                  autoFocus
                />
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>
                      The one-time password must be replaced. Use at least 12 characters.
                    </HelperTextItem>
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
