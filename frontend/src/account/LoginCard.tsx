// Frame of the pages before a sign-in.
import { Card, CardBody, Title } from "@patternfly/react-core";
import type { ReactNode } from "react";
import logo from "../ui/busbar.svg";
import { t } from "../text/text";

export function LoginCard({ children }: { children: ReactNode }) {
  return (
    <main className="bb-login">
      <Card className="bb-login__card">
        <CardBody>
          <div className="bb-login__brand">
            <img src={logo} alt="" width={44} height={44} />
            <div>
              <Title headingLevel="h1">Busbar</Title>
              <p className="bb-quiet">{t("login.lead")}</p>
            </div>
          </div>
          {children}
        </CardBody>
      </Card>
    </main>
  );
}
