// Field for a password, with a text that helps.
import {
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
} from "@patternfly/react-core";

interface PasswordProps {
  id: string;
  label: string;
  help?: string;
  value: string;
  onChange: (value: string) => void;
  isNew?: boolean;
  autoFocus?: boolean;
  /** Mark the label as that of a field that must not stay empty. */
  isMarked?: boolean;
}

export function PasswordField({
  id,
  label,
  help,
  value,
  onChange,
  isNew,
  autoFocus,
  isMarked,
}: PasswordProps) {
  return (
    <FormGroup label={label} fieldId={id} isRequired={isMarked}>
      <TextInput
        id={id}
        type="password"
        value={value}
        onChange={(_, v) => onChange(v)}
        autoComplete={isNew ? "new-password" : "current-password"}
        isRequired
        autoFocus={autoFocus}
      />
      {help && (
        <FormHelperText>
          <HelperText>
            <HelperTextItem>{help}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      )}
    </FormGroup>
  );
}
