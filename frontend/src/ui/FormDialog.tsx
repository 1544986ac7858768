// Dialog with a form described by its fields. What was typed stays after a failure.
import {
  Alert,
  Button,
  ClipboardCopy,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
} from "@patternfly/react-core";
import { type FormEvent, type ReactNode, useState } from "react";
import { t } from "../text/text";
import { Conflict, ConflictChoice } from "./Conflict";
import { type Field, FieldInput, type FieldValue, type FormValues } from "./fields";

export interface FormDialogProps {
  title: string;
  description?: string;
  fields: Field[];
  initial?: FormValues;
  verb: string;
  /** Send the values; the result is shown if it is a node. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most forms show no result
  submit: (values: FormValues) => Promise<ReactNode | void>;
  /** Whether there is nothing to send. */
  isUnchanged?: (values: FormValues) => boolean;
  /** The same as a command line. */
  command?: (values: FormValues) => string;
  /** Shown instead of the form. */
  result?: ReactNode;
  close: () => void;
}

export function FormDialog(props: FormDialogProps) {
  const { title, description, fields, initial = {}, verb, submit, command, close } = props;
  const { isUnchanged = () => false } = props;
  const [values, setValues] = useState<FormValues>(initial);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const [result, setResult] = useState<ReactNode>(props.result ?? null);
  const shown = fields.filter((f) => !f.isHidden?.(values));
  const missing = shown.some((f) => f.required && !values[f.name]);
  const put = (name: string, value: FieldValue) => setValues((old) => ({ ...old, [name]: value }));
  const fail = (problem: unknown) => {
    const found = problem instanceof Conflict ? problem : null;
    setConflict(found);
    if (found) setValues(found.values);
    else setError((problem as Error).message);
  };
  const send = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setError("");
    try {
      const given = await submit(values);
      if (given) setResult(given);
      else close();
    } catch (problem) {
      fail(problem);
    }
    setBusy(false);
  };
  return (
    <Modal isOpen variant="small" onClose={close} aria-labelledby="form-title">
      <ModalHeader title={title} labelId="form-title" description={description} />
      <ModalBody>
        {result ?? (
          <Form id="form" onSubmit={(e) => void send(e)}>
            {error && <Alert variant="danger" isInline title={error} component="p" />}
            {conflict && <ConflictChoice {...{ conflict, values }} choose={put} />}
            {shown.map((field, i) => (
              <FormGroup
                key={field.name}
                label={t(field.label)}
                fieldId={`field-${field.name}`}
                isRequired={field.required}
                role={field.type === "checks" ? "group" : undefined}
              >
                <FieldInput
                  field={field}
                  value={values[field.name]}
                  autoFocus={i === 0}
                  onChange={(v) => put(field.name, v)}
                />
                {field.help && (
                  <FormHelperText>
                    <HelperText>
                      <HelperTextItem>{t(field.help)}</HelperTextItem>
                    </HelperText>
                  </FormHelperText>
                )}
              </FormGroup>
            ))}
            {command && (
              <FormGroup label={t("common.sameCommand")} fieldId="as-command">
                <ClipboardCopy
                  isReadOnly
                  hoverTip={t("common.copy")}
                  clickTip={t("common.copied")}
                  textAriaLabel={t("common.command")}
                >
                  {command(values)}
                </ClipboardCopy>
              </FormGroup>
            )}
          </Form>
        )}
      </ModalBody>
      <ModalFooter>
        {!result && (
          <Button
            variant="primary"
            type="submit"
            form="form"
            isLoading={busy}
            isDisabled={busy || missing || isUnchanged(values)}
          >
            {verb}
          </Button>
        )}
        <Button variant={result ? "primary" : "link"} onClick={close}>
          {result ? t("common.close") : t("common.cancel")}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
