// A new secret of a second factor: QR code and text; and recovery codes, which are shown once.
import { Button, ClipboardCopy } from "@patternfly/react-core";
import { useState } from "react";
import { t } from "../text/text";
import { QrCode } from "./QrCode";

export interface NewSecretValue {
  secret: string;
  qr: readonly string[];
}

export function NewSecret({ value }: { value: NewSecretValue }) {
  return (
    <div className="bb-stack">
      <QrCode rows={value.qr} />
      <div>
        <p className="bb-quiet">{t("factor.secret")}</p>
        <ClipboardCopy
          isReadOnly
          hoverTip={t("common.copy")}
          clickTip={t("common.copied")}
          textAriaLabel={t("factor.secret")}
        >
          {value.secret}
        </ClipboardCopy>
      </div>
    </div>
  );
}

export function RecoveryCodes({ codes, done }: { codes: readonly string[]; done: () => void }) {
  const [copied, setCopied] = useState(false);
  return (
    <div className="bb-stack">
      <p>{t("factor.codesHelp")}</p>
      <pre className="bb-codes">{codes.join("\n")}</pre>
      <Button
        variant="secondary"
        onClick={() => {
          void navigator.clipboard.writeText(codes.join("\n"));
          setCopied(true);
        }}
      >
        {t(copied ? "common.copied" : "common.copy")}
      </Button>
      <Button variant="primary" onClick={done}>
        {t("factor.saved")}
      </Button>
    </div>
  );
}
