// A list that the live feed does not carry, with its form for new rows and the actions of its rows.
import { Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { change } from "../actions/change";
import { openDialog } from "../actions/dialogs";
import { type ListName, type RowOf, listQuery } from "../api/lists";
import { useAccount, useDenied } from "../model/account";
import type { Actionable, Target } from "../model/kinds";
import { type Key, t } from "../text/text";
import { ask } from "../ui/confirm";
import { DeniedButton } from "../ui/DeniedButton";
import type { Field, FormValues } from "../ui/fields";
import { FormDialog } from "../ui/FormDialog";
import { Panel } from "../ui/Panel";
import { QueryState, StateBlock } from "../ui/states";
import { type Column, DataTable } from "./DataTable";

export interface NewRow {
  label: Key;
  privilege: string;
  fields: Field[];
  initial?: FormValues;
  /** Send the values; what is returned is shown once, such as a secret. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most forms show no result
  send: (values: FormValues) => Promise<ReactNode | void>;
  command?: (values: FormValues) => string;
}

interface ListPaneProps<N extends ListName> {
  list: N;
  title: Key;
  columns: readonly Column<RowOf<N>>[];
  target?: (row: RowOf<N>) => Target;
  /** The object of a row that has no page. */
  actionable?: (row: RowOf<N>) => Actionable | undefined;
  hasBulk?: boolean;
  create?: NewRow;
  /** Deletion of rows of a kind without actions. */
  remove?: {
    privilege: string;
    name: (row: RowOf<N>) => string;
    send: (row: RowOf<N>) => Promise<unknown>;
  };
  empty?: Key;
}

function openCreate(form: NewRow) {
  const name = (v: FormValues) => String(v.name ?? v.username ?? v.role ?? v.subject ?? "");
  openDialog((close) => (
    <FormDialog
      title={t(form.label)}
      fields={form.fields}
      initial={form.initial ?? {}}
      verb={t("common.create")}
      close={close}
      submit={(v) => change(t("result.created", { name: name(v) }), async () => form.send(v))}
      {...(form.command ? { command: form.command } : {})}
    />
  ));
}

function CreateButton({ form }: { form: NewRow }) {
  const denied = useDenied(form.privilege);
  return (
    <DeniedButton denied={denied}>
      <Button
        variant="primary"
        isAriaDisabled={Boolean(denied)}
        onClick={() => denied || openCreate(form)}
      >
        {t(form.label)}
      </Button>
    </DeniedButton>
  );
}

type Removal<N extends ListName> = NonNullable<ListPaneProps<N>["remove"]>;

function askRemoval<N extends ListName>(remove: Removal<N>, row: RowOf<N>) {
  const name = remove.name(row);
  ask({
    title: t("confirm.title", { action: t("action.delete"), name }),
    body: <p>{t("loss.final")}</p>,
    verb: t("action.delete"),
    run: () =>
      change(t("result.done", { action: t("action.delete"), name }), () => remove.send(row)),
  });
}

function RemoveButton<N extends ListName>({ remove, row }: { remove: Removal<N>; row: RowOf<N> }) {
  const { me } = useAccount();
  if (!me.privileges.includes(remove.privilege)) return null;
  return (
    <Button
      variant="link"
      isInline
      isDanger
      aria-label={t("form.title", { action: t("action.delete"), name: remove.name(row) })}
      onClick={() => askRemoval(remove, row)}
    >
      {t("action.delete")}
    </Button>
  );
}

type WithId<R> = R & { id: string };
/** Return the rows with ids: a built-in row has none of its own. */
const withIds = <N extends ListName>(rows: readonly RowOf<N>[]) =>
  rows.map((r) => ({ ...r, id: r.id ?? ("name" in r ? r.name : "") })) as WithId<RowOf<N>>[];

export function ListPane<N extends ListName>(props: ListPaneProps<N>) {
  const { list, title, columns, target, actionable, create, remove, empty, hasBulk } = props;
  const query = useQuery(listQuery(list));
  return (
    <Panel title={t(title)}>
      <QueryState query={query}>
        {(rows) => (
          <DataTable
            table={list}
            label={t(title)}
            rows={withIds<N>(rows)}
            columns={columns as readonly Column<WithId<RowOf<N>>>[]}
            {...(target ? { target } : {})}
            {...(actionable ? { actionable } : {})}
            {...(remove
              ? { rowEnd: (row: RowOf<N>) => <RemoveButton remove={remove} row={row} /> }
              : {})}
            hasBulk={Boolean(hasBulk)}
            toolbar={create && <CreateButton form={create} />}
            empty={<StateBlock level="h3" title={t(empty ?? "state.none")} />}
          />
        )}
      </QueryState>
    </Panel>
  );
}
