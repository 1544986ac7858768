// Input of a code of an authenticator app, or of a recovery code.
import {
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
} from "@patternfly/react-core";
import { t } from "../text/text";

interface Props {
  id: string;
  value: string;
  onChange: (value: string) => void;
  autoFocus?: boolean;
  /** Whether a recovery code is accepted, too. */
  help?: boolean;
}

export function CodeField({ id, value, onChange, autoFocus = false, help = false }: Props) {
  return (
    <FormGroup label={t("factor.code")} fieldId={id}>
      <TextInput
        id={id}
        value={value}
        onChange={(_, v) => onChange(v)}
        autoComplete="one-time-code"
        inputMode={help ? "text" : "numeric"}
        isRequired
        autoFocus={autoFocus}
      />
      {help && (
        <FormHelperText>
          <HelperText>
            <HelperTextItem>{t("factor.codeHelp")}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      )}
    </FormGroup>
  );
}
