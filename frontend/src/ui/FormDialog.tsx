// Dialog with a form described by its fields. What was typed stays after a failure.
import {
  Alert,
  Button,
  ClipboardCopy,
  Form,
  FormGroup,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
} from "@patternfly/react-core";
import { type FormEvent, type ReactNode, useState } from "react";
import { t } from "../text/text";
import { Conflict, ConflictChoice } from "./Conflict";
import { FieldGroup } from "./FieldGroup";
import { type Field, FieldInput, type FieldValue, type FormValues, isSame } from "./fields";
import { messageFor, messageOf } from "./refusal";

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

/** The values of a form, and what came of its last submission. */
function useForm({ initial = {}, submit, close, ...props }: FormDialogProps) {
  const [values, setValues] = useState<FormValues>(initial);
  const [sent, setSent] = useState<FormValues>({});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const [result, setResult] = useState<ReactNode>(props.result ?? null);
  const put = (name: string, value: FieldValue) => setValues((old) => ({ ...old, [name]: value }));
  const fail = (problem: unknown) => {
    const found = problem instanceof Conflict ? problem : null;
    setConflict(found);
    if (found) setValues(found.values);
    else setError(problem as Error);
  };
  const send = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setSent(values);
    setError(null);
    try {
      const given = await submit(values);
      if (given) setResult(given);
      else close();
    } catch (problem) {
      fail(problem);
    }
    setBusy(false);
  };
  /** Return what is wrong with a field, until its value is changed. */
  const errorOf = (field: Field) =>
    isSame(values[field.name], sent[field.name]) ? messageFor(error, field) : "";
  return { values, put, busy, error, errorOf, conflict, result, send };
}

/** The same as a command. */
function AsCommand({ command }: { command: string }) {
  return (
    <FormGroup label={t("common.sameCommand")} fieldId="as-command">
      <ClipboardCopy
        isReadOnly
        hoverTip={t("common.copy")}
        clickTip={t("common.copied")}
        textAriaLabel={t("common.command")}
      >
        {command}
      </ClipboardCopy>
    </FormGroup>
  );
}

interface FieldsProps {
  form: ReturnType<typeof useForm>;
  fields: Field[];
  shown: Field[];
  command: FormDialogProps["command"];
}

function Fields({ form, fields, shown, command }: FieldsProps) {
  const { values, put, error, errorOf, conflict, send } = form;
  return (
    <Form id="form" onSubmit={(e) => void send(e)}>
      {error && <Alert variant="danger" isInline title={messageOf(error, fields)} component="p" />}
      {conflict && <ConflictChoice {...{ conflict, values }} choose={put} />}
      {shown.map((field, i) => (
        <FieldGroup
          key={field.name}
          field={field}
          error={errorOf(field)}
          isGroup={field.type === "checks"}
        >
          <FieldInput
            field={field}
            value={values[field.name]}
            error={errorOf(field)}
            autoFocus={i === 0}
            onChange={(v) => put(field.name, v)}
          />
        </FieldGroup>
      ))}
      {command && <AsCommand command={command(values)} />}
    </Form>
  );
}

export function FormDialog(props: FormDialogProps) {
  const { title, description, fields, verb, command, close, isUnchanged = () => false } = props;
  const form = useForm(props);
  const { values, busy, result } = form;
  const shown = fields.filter((f) => !f.isHidden?.(values));
  const missing = shown.some((f) => f.required && !values[f.name]);
  return (
    <Modal isOpen variant="small" onClose={close} aria-labelledby="form-title">
      <ModalHeader title={title} labelId="form-title" description={description} />
      <ModalBody>{result ?? <Fields {...{ form, fields, shown, command }} />}</ModalBody>
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
