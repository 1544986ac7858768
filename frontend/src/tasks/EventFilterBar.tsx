// Filters of the events, and their export as CSV.
import {
  Button,
  FormSelect,
  FormSelectOption,
  TextInput,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import type { Event } from "../api/client";
import { humanize } from "../model/format";
import { catalogue } from "../text/catalogue";
import { type Key, coded, t } from "../text/text";
import { downloadCsv } from "../ui/csv";

const KINDS = Object.keys(catalogue)
  .flatMap((k) => (k.startsWith("event.") && k.split(".").length === 3 ? [k.slice(6)] : []))
  .sort();

export interface TypedFilter {
  kind: string;
  actor: string;
  /** Local times, of inputs. */
  from: string;
  to: string;
}

interface MomentProps {
  label: Key;
  value: string;
  onChange: (value: string) => void;
}

function Moment({ label, value, onChange }: MomentProps) {
  return (
    <ToolbarItem>
      <TextInput
        type="datetime-local"
        aria-label={t(label)}
        value={value}
        onChange={(_, v) => onChange(v)}
      />
    </ToolbarItem>
  );
}

function KindChoice({ value, onChange }: Omit<MomentProps, "label">) {
  return (
    <ToolbarItem>
      <FormSelect aria-label={t("event.kind")} value={value} onChange={(_, v) => onChange(v)}>
        <FormSelectOption value="" label={t("event.kind")} />
        {KINDS.map((k) => (
          <FormSelectOption key={k} value={k} label={coded("event", k, humanize(k))} />
        ))}
      </FormSelect>
    </ToolbarItem>
  );
}

const exportEvents = (events: Event[]) =>
  downloadCsv(
    "events",
    events.map((e) => [e.created_at ?? "", e.kind, e.path, e.actor, e.message]),
  );

interface BarProps {
  typed: TypedFilter;
  put: (fresh: Partial<TypedFilter>) => void;
  rows: Event[];
}

export function EventFilterBar({ typed, put, rows }: BarProps) {
  return (
    <Toolbar inset={{ default: "insetNone" }} className="bb-toolbar">
      <ToolbarContent>
        <KindChoice value={typed.kind} onChange={(kind) => put({ kind })} />
        <ToolbarItem>
          <TextInput
            aria-label={t("event.actor")}
            placeholder={t("event.actor")}
            value={typed.actor}
            onChange={(_, actor) => put({ actor })}
          />
        </ToolbarItem>
        <Moment label="event.from" value={typed.from} onChange={(from) => put({ from })} />
        <Moment label="event.to" value={typed.to} onChange={(to) => put({ to })} />
        <ToolbarItem align={{ default: "alignEnd" }} alignSelf="center">
          <Button variant="link" isInline onClick={() => exportEvents(rows)}>
            {t("common.csv")}
          </Button>
        </ToolbarItem>
      </ToolbarContent>
    </Toolbar>
  );
}
