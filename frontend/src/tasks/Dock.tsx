// Recent tasks and events, docked below every page. Height and choice are remembered.
import { Button, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import AngleDownIcon from "@patternfly/react-icons/dist/esm/icons/angle-down-icon";
import AngleUpIcon from "@patternfly/react-icons/dist/esm/icons/angle-up-icon";
import { type KeyboardEvent, type PointerEvent, useRef } from "react";
import { useRows } from "../api/queries";
import { counted, t } from "../text/text";
import { Loaded } from "../ui/states";
import { PaneBoundary } from "../ui/PaneBoundary";
import { useStored } from "../ui/stored";
import { AlarmTable } from "../alarms/AlarmTable";
import { countText } from "../alarms/alarms";
import { EventTable } from "./EventTable";
import { TaskTable } from "./TaskTable";

const [MIN, MAX, STEP] = [80, 600, 24];
const LOW_WINDOW = 800;
const SHOWN = 30;
type View = "tasks" | "alarms" | "events";

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

export function Dock() {
  const tasks = useRows("task");
  const [open, setOpen] = useStored("dock.open", window.innerHeight >= LOW_WINDOW);
  const [height, setHeight] = useStored("dock.height", 176);
  const [view, setView] = useStored<View>("dock.view", "tasks");
  const running = tasks.filter((x) => x.state === "running").length;
  const alarms = useRows("alarm");
  const label = t(`dock.${view}`);
  return (
    <section className="bb-dock" aria-label={t("dock.label")}>
      {open && <Edge height={height} setHeight={setHeight} />}
      <div className="bb-dock__head">
        <ToggleGroup aria-label={t("dock.view")} isCompact>
          {(["tasks", "alarms", "events"] as const).map((v) => (
            <ToggleGroupItem
              key={v}
              text={t(`dock.${v}`)}
              buttonId={`dock-${v}`}
              isSelected={open && v === view}
              onChange={() => {
                setView(v);
                setOpen(true);
              }}
            />
          ))}
        </ToggleGroup>
        <span className="bb-quiet">
          {running ? counted("dock.running", running) : t("dock.noRunning")}
          {alarms.length > 0 && `, ${countText(alarms)}`}
        </span>
        <Button
          variant="plain"
          size="sm"
          aria-expanded={open}
          aria-label={t(open ? "dock.hide" : "dock.show")}
          icon={open ? <AngleDownIcon /> : <AngleUpIcon />}
          onClick={() => setOpen(!open)}
        />
      </div>
      {open && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        <section className="bb-dock__list" style={{ height }} tabIndex={0} aria-label={label}>
          <PaneBoundary resetKey={view}>
            {view === "tasks" ? (
              <Loaded kinds={["task"]}>
                <TaskTable tasks={tasks.slice(0, SHOWN)} />
              </Loaded>
            ) : view === "alarms" ? (
              <Loaded kinds={["alarm"]}>
                <AlarmTable alarms={alarms.slice(0, SHOWN)} label={t("dock.alarms")} isPlain />
              </Loaded>
            ) : (
              <Loaded kinds={["event"]}>
                <RecentEvents />
              </Loaded>
            )}
          </PaneBoundary>
        </section>
      )}
    </section>
  );
}

function RecentEvents() {
  return <EventTable events={useRows("event").slice(0, SHOWN)} label={t("dock.recentEvents")} />;
}
