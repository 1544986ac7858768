// The part of a form about fields that another user has changed too: it shows both values.
import { Alert, FormGroup, Radio } from "@patternfly/react-core";
import { say, t } from "../text/text";
import { type Field, type FieldValue, type FormValues, isSame } from "./fields";

interface Disputed {
  field: Field;
  yours: FieldValue;
  theirs: FieldValue;
}

/** Thrown by the submission of a form. */
export class Conflict extends Error {
  constructor(
    readonly by: string,
    readonly disputed: Disputed[],
    /** The values of the form, with their changes of other fields. */
    readonly values: FormValues,
  ) {
    super();
  }
}

function shown(value: FieldValue): string {
  if (typeof value === "boolean") return t(value ? "common.yes" : "common.no");
  const lines = Array.isArray(value) ? value : value.split("\n");
  return lines.filter(Boolean).join(", ") || t("common.none");
}

const SIDES = [
  ["yours", "conflict.yours"],
  ["theirs", "conflict.theirs"],
] as const;

/** The form may be longer than the window, and its button is at the end. */
const reveal = (box: HTMLElement | null) => box?.scrollIntoView?.({ block: "nearest" });

interface ChoiceProps {
  conflict: Conflict;
  values: FormValues;
  choose: (name: string, value: FieldValue) => void;
}

export function ConflictChoice({ conflict, values, choose }: ChoiceProps) {
  const by = conflict.by || t("conflict.unknown");
  return (
    <div ref={reveal}>
      <Alert
        variant="warning"
        isInline
        isLiveRegion
        component="p"
        title={t("conflict.title", { by })}
      >
        {conflict.disputed.map(({ field, ...sides }) => (
          <FormGroup
            key={field.name}
            role="radiogroup"
            label={say(field.label)}
            fieldId={`conflict-${field.name}`}
          >
            {SIDES.map(([side, text]) => (
              <Radio
                key={side}
                id={`conflict-${field.name}-${side}`}
                name={`conflict-${field.name}`}
                label={t(text, { value: shown(sides[side]) })}
                isChecked={isSame(values[field.name], sides[side])}
                onChange={() => choose(field.name, sides[side])}
              />
            ))}
          </FormGroup>
        ))}
      </Alert>
    </div>
  );
}
