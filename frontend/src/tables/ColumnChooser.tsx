// Button that opens the choice of a table's columns.
import { Button, Checkbox, Popover } from "@patternfly/react-core";
import ColumnsIcon from "@patternfly/react-icons/dist/esm/icons/columns-icon";
import { useId, useRef, useState } from "react";
import { t } from "../text/text";
import type { ColumnChoice } from "./columnChoice";
import type { Column } from "./columns";

interface ColumnChooserProps<R> {
  label: string;
  columns: readonly Column<R>[];
  choice: ColumnChoice<Column<R>>;
}

/** Parent of the menu: a card would clip it, and outside a landmark its header is a banner. */
const page = () => document.querySelector("main") ?? document.body;

function Boxes<R>({ columns, choice }: Omit<ColumnChooserProps<R>, "label">) {
  const id = useId();
  return (
    <div className="bb-columns">
      {columns.map((c) => (
        <Checkbox
          key={c.id}
          id={`${id}-${c.id}`}
          label={choice.isFixed(c) ? t("columns.always", { name: t(c.label) }) : t(c.label)}
          isChecked={choice.shown.includes(c)}
          isDisabled={choice.isFixed(c)}
          onChange={(_, on) => choice.show(c, on)}
        />
      ))}
    </div>
  );
}

const DefaultButton = ({ hidden, reset }: { hidden: number; reset: () => void }) => (
  <Button variant="link" isInline isAriaDisabled={!hidden} onClick={reset}>
    {t("columns.default")}
  </Button>
);

export function ColumnChooser<R>({ label, columns, choice }: ColumnChooserProps<R>) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const hidden = columns.length - choice.shown.length;
  const counts = { shown: choice.shown.length, total: columns.length };
  const text = hidden ? t("columns.some", counts) : t("columns.all");
  const close = (event: MouseEvent | KeyboardEvent) => {
    setOpen(false);
    if ("key" in event) button.current?.focus();
  };
  return (
    <Popover
      isVisible={open}
      shouldOpen={() => setOpen(true)}
      shouldClose={close}
      appendTo={page}
      position="bottom-end"
      flipBehavior={["top-end", "bottom-end"]}
      minWidth="14rem"
      showClose={false}
      headerContent={t("columns.of", { columns: t("columns.all"), what: label })}
      headerComponent="h3"
      bodyContent={<Boxes columns={columns} choice={choice} />}
      footerContent={<DefaultButton hidden={hidden} reset={choice.reset} />}
    >
      <Button
        ref={button}
        variant="link"
        isInline
        icon={<ColumnsIcon />}
        aria-label={t("columns.of", { columns: text, what: label })}
        aria-haspopup="dialog"
        aria-expanded={open}
      >
        {text}
      </Button>
    </Popover>
  );
}
