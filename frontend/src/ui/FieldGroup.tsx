// A field of a form with its label, what is wrong with its value, and its help.
import { FormGroup, FormHelperText, HelperText, HelperTextItem } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { say } from "../text/text";
import { type Field, describedBy, fieldId, helpId } from "./fields";

interface Props {
  field: Field;
  /** What is wrong with the value; empty if nothing is. */
  error: string;
  label?: string;
  /** Whether the field has several inputs, which it describes together. */
  isGroup?: boolean;
  children: ReactNode;
}

export function FieldGroup({ field, error, label, isGroup = false, children }: Props) {
  return (
    <FormGroup
      label={label ?? say(field.label)}
      fieldId={fieldId(field)}
      isRequired={field.required}
      {...(isGroup && { role: "group", ...describedBy({ field, error }) })}
    >
      {children}
      {(error || field.help) && (
        <FormHelperText>
          <HelperText id={helpId(field)}>
            {error && <HelperTextItem variant="error">{error}</HelperTextItem>}
            {field.help && <HelperTextItem>{say(field.help)}</HelperTextItem>}
          </HelperText>
        </FormHelperText>
      )}
    </FormGroup>
  );
}
