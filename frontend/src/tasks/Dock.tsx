// Recent tasks and events, docked below every page. Height and choice are remembered.
import { Button, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import AngleDownIcon from "@patternfly/react-icons/dist/esm/icons/angle-down-icon";
import AngleUpIcon from "@patternfly/react-icons/dist/esm/icons/angle-up-icon";
import { type KeyboardEvent, type PointerEvent, useRef } from "react";
import { AlarmTable } from "../alarms/AlarmTable";
import { countText } from "../alarms/alarms";
import { useRows } from "../api/queries";
import { counted, t } from "../text/text";
import { Loaded } from "../ui/states";
import { PaneBoundary } from "../ui/PaneBoundary";
import { useStored } from "../ui/stored";
import { EventTable } from "./EventTable";
import { TaskTable } from "./TaskTable";

const [MIN, MAX, STEP] = [80, 600, 24];
const LOW_WINDOW = 800;
const SHOWN = 30;

const clamp = (height: number) =>
  Math.min(MAX, Math.max(MIN, Math.min(height, window.innerHeight * 0.6)));

/** Edge that resizes the dock by pointer or arrow keys. */
function Edge({ height, setHeight }: { height: number; setHeight: (height: number) => void }) {
  const start = useRef<{ y: number; height: number } | null>(null);
  const down = (e: PointerEvent<HTMLDivElement>) => {
    start.current = { y: e.clientY, height };
    e.currentTarget.setPointerCapture(e.pointerId);
  };
  const move = (e: PointerEvent) => {
    if (start.current) setHeight(clamp(start.current.height + start.current.y - e.clientY));
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "ArrowUp") setHeight(clamp(height + STEP));
    else if (e.key === "ArrowDown") setHeight(clamp(height - STEP));
    else return;
    e.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a resizable separator has no element of its own
    <div
      role="separator"
      aria-orientation="horizontal"
      aria-label={t("dock.resize")}
      aria-valuenow={Math.round(height)}
      aria-valuemin={MIN}
      aria-valuemax={MAX}
      tabIndex={0}
      className="bb-dock__edge"
      onPointerDown={down}
      onPointerMove={move}
      onPointerUp={() => {
        start.current = null;
      }}
      onKeyDown={key}
    />
  );
}

const VIEWS = ["tasks", "alarms", "events"] as const;
type View = (typeof VIEWS)[number];

function RecentTasks() {
  return <TaskTable tasks={useRows("task").slice(0, SHOWN)} />;
}

function OpenAlarms() {
  const alarms = useRows("alarm").slice(0, SHOWN);
  return <AlarmTable alarms={alarms} label={t("dock.alarms")} isPlain />;
}

function RecentEvents() {
  const events = useRows("event").slice(0, SHOWN);
  return <EventTable events={events} label={t("dock.recentEvents")} />;
}

const LISTS = {
  tasks: { kind: "task", List: RecentTasks },
  alarms: { kind: "alarm", List: OpenAlarms },
  events: { kind: "event", List: RecentEvents },
} as const;

/** Number of running tasks and of open alarms. */
function Counts() {
  const running = useRows("task").filter((x) => x.state === "running").length;
  const alarms = useRows("alarm");
  return (
    <span className="bb-quiet">
      {running ? counted("dock.running", running) : t("dock.noRunning")}
      {alarms.length > 0 && `, ${countText(alarms)}`}
    </span>
  );
}

interface ViewChoiceProps {
  /** The view that is shown, if the dock is open. */
  shown: View | null;
  show: (view: View) => void;
}

function ViewChoice({ shown, show }: ViewChoiceProps) {
  return (
    <ToggleGroup aria-label={t("dock.view")} isCompact>
      {VIEWS.map((v) => (
        <ToggleGroupItem
          key={v}
          text={t(`dock.${v}`)}
          buttonId={`dock-${v}`}
          isSelected={v === shown}
          onChange={() => show(v)}
        />
      ))}
    </ToggleGroup>
  );
}

function DockList({ view, height }: { view: View; height: number }) {
  const { kind, List } = LISTS[view] ?? LISTS.events;
  const label = t(`dock.${view}`);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section className="bb-dock__list" style={{ height }} tabIndex={0} aria-label={label}>
      <PaneBoundary resetKey={view}>
        <Loaded kinds={[kind]}>
          <List />
        </Loaded>
      </PaneBoundary>
    </section>
  );
}

export function Dock() {
  const [open, setOpen] = useStored("dock.open", window.innerHeight >= LOW_WINDOW);
  const [height, setHeight] = useStored("dock.height", 176);
  const [view, setView] = useStored<View>("dock.view", "tasks");
  const show = (next: View) => {
    setView(next);
    setOpen(true);
  };
  return (
    <section className="bb-dock" aria-label={t("dock.label")}>
      {open && <Edge height={height} setHeight={setHeight} />}
      <div className="bb-dock__head">
        <ViewChoice shown={open ? view : null} show={show} />
        <Counts />
        <Button
          variant="plain"
          size="sm"
          aria-expanded={open}
          aria-label={t(open ? "dock.hide" : "dock.show")}
          icon={open ? <AngleDownIcon /> : <AngleUpIcon />}
          onClick={() => setOpen(!open)}
        />
      </div>
      {open && <DockList view={view} height={height} />}
    </section>
  );
}
