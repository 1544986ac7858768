// Charts of one object over a chosen range, with table and CSV.
import { Button, Skeleton, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { Suspense, lazy, useMemo, useState } from "react";
import { dateTime, number } from "../model/format";
import { type Key, t } from "../text/text";
import { downloadCsv } from "../ui/csv";
import { Panel } from "../ui/Panel";
import { ErrorState } from "../ui/states";
import { useStored } from "../ui/stored";
import {
  type ChartKind,
  RANGES,
  type Range,
  type Series,
  historySeries,
  useHistory,
} from "./series";

const Plot = lazy(() => import("./Plot"));
const TABLE_ROWS = 200;

export interface Metric {
  name: string;
  label: Key;
  unit: string;
  tone: string;
  digits?: number;
  scale?: number;
  max?: number;
  isCounter?: boolean;
}
interface Props {
  kind: ChartKind;
  id: string;
  title: string;
  metrics: readonly Metric[];
  /** Series of the shortest range, if the live feed carries them. */
  live?: (metric: Metric) => Series | undefined;
}

/** Rows of time and values; the times are those of the first series. */
function tableRows(series: Series[]): (number | null)[][] {
  const lookups = series.map(
    ([times, values]) => new Map(times.map((x, i) => [x, values[i] ?? null])),
  );
  const times = [
    ...new Set(series.flatMap(([times, values]) => times.filter((_, i) => values[i] !== null))),
  ];
  return times.sort((a, b) => b - a).map((x) => [x, ...lookups.map((m) => m.get(x) ?? null)]);
}

function ValueTable({
  metrics,
  rows,
  title,
}: {
  metrics: readonly Metric[];
  rows: (number | null)[][];
  title: string;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section className="bb-scroll bb-scroll--table" tabIndex={0} aria-label={title}>
      <Table variant="compact" aria-label={title} isStickyHeader>
        <Thead>
          <Tr>
            <Th>{t("event.time")}</Th>
            {metrics.map((m) => (
              <Th key={m.name}>
                {t(m.label)}, {m.unit}
              </Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {rows.slice(0, TABLE_ROWS).map(([time, ...values]) => (
            <Tr key={time}>
              <Td>{dateTime(new Date((time ?? 0) * 1000).toISOString())}</Td>
              {values.map((v, i) => (
                <Td key={metrics[i]?.name}>
                  {v == null ? "–" : number(v, metrics[i]?.digits ?? 0)}
                </Td>
              ))}
            </Tr>
          ))}
        </Tbody>
      </Table>
    </section>
  );
}

type History = ReturnType<typeof useHistory>;

/** Return a series for each metric: of the live feed where it carries one, else of the history. */
function useSeries({ metrics, live }: Props, range: Range, data: History["data"]): Series[] {
  return useMemo(
    () =>
      metrics.map((m): Series => {
        const fresh = range === "5m" ? live?.(m) : undefined;
        if (fresh?.[0].length) return fresh;
        return historySeries(data, m.name, {
          scale: m.scale ?? 1,
          isCounter: m.isCounter ?? false,
        });
      }),
    [metrics, range, live, data],
  );
}

const exportSeries = (title: string, metrics: readonly Metric[], series: Series[]) =>
  downloadCsv(title, [
    ["time", ...metrics.map((m) => `${m.name} ${m.unit}`)],
    ...tableRows(series).map(([time, ...values]) => [
      new Date((time ?? 0) * 1000).toISOString(),
      ...values.map((v) => v ?? ""),
    ]),
  ]);

interface RangeChoiceProps {
  id: string;
  range: Range;
  setRange: (range: Range) => void;
}

function RangeChoice({ id, range, setRange }: RangeChoiceProps) {
  return (
    <ToggleGroup isCompact aria-label={t("chart.range")}>
      {(Object.keys(RANGES) as Range[]).map((r) => (
        <ToggleGroupItem
          key={r}
          text={t(`chart.${r}`)}
          buttonId={`${id}-${r}`}
          isSelected={r === range}
          onChange={() => setRange(r)}
        />
      ))}
    </ToggleGroup>
  );
}

interface PlotsProps {
  metrics: readonly Metric[];
  series: Series[];
  range: Range;
}

function Plots({ metrics, series, range }: PlotsProps) {
  return (
    <Suspense fallback={<Skeleton height="150px" screenreaderText={t("state.loading")} />}>
      <div className="bb-charts">
        {metrics.map((m, i) => (
          <Plot
            key={m.name}
            label={t(m.label)}
            unit={m.unit}
            tone={m.tone}
            digits={m.digits ?? 0}
            {...(m.max === undefined ? {} : { max: m.max })}
            seconds={RANGES[range]}
            syncKey="busbar"
            series={series[i] ?? [[], []]}
          />
        ))}
      </div>
    </Suspense>
  );
}

export function MetricsPanel(props: Props) {
  const { kind, id, title, metrics } = props;
  const [range, setRange] = useStored<Range>("chart.range", "5m");
  const [isTable, setTable] = useState(false);
  const history = useHistory(kind, id, range);
  const series = useSeries(props, range, history.data);
  const exportRows = () => exportSeries(title, metrics, series);
  const controls = (
    <div className="bb-chartcontrols">
      <RangeChoice {...{ id, range, setRange }} />
      <Button variant="link" isInline aria-pressed={isTable} onClick={() => setTable(!isTable)}>
        {t(isTable ? "chart.asChart" : "chart.asTable")}
      </Button>
      <Button variant="link" isInline onClick={exportRows}>
        {t("common.csv")}
      </Button>
    </div>
  );
  return (
    <Panel title={title} actions={controls}>
      {history.error && !history.data ? (
        <ErrorState error={history.error} retry={() => void history.refetch()} />
      ) : isTable ? (
        <ValueTable metrics={metrics} rows={tableRows(series)} title={title} />
      ) : (
        <Plots {...{ metrics, series, range }} />
      )}
    </Panel>
  );
}
