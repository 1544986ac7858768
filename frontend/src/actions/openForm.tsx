// Dialog with the form of an action on an object.
import type { Actionable } from "../model/kinds";
import { type Key, t } from "../text/text";
import { FormDialog, type FormDialogProps } from "../ui/FormDialog";
import { change } from "./change";
import { openDialog } from "./dialogs";

type Options = Pick<FormDialogProps, "fields" | "submit"> & Partial<FormDialogProps>;

/** Open a form about an object; after its submission say what was done. */
export function openForm(x: Actionable, label: Key, options: Options) {
  const action = t(label);
  openDialog((close) => (
    <FormDialog
      title={t("form.title", { action, name: x.name })}
      verb={t("common.save")}
      close={close}
      {...options}
      submit={(values) =>
        change(t("result.done", { action, name: x.name }), async () => options.submit(values))
      }
    />
  ));
}
