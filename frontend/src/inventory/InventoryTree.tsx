// Inventory tree: views, filter, remembered expansion, keyboard. The URL holds the selection.
import { SearchInput, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import AngleDownIcon from "@patternfly/react-icons/dist/esm/icons/angle-down-icon";
import AngleRightIcon from "@patternfly/react-icons/dist/esm/icons/angle-right-icon";
import CubeIcon from "@patternfly/react-icons/dist/esm/icons/cube-icon";
import FolderIcon from "@patternfly/react-icons/dist/esm/icons/folder-icon";
import LayerGroupIcon from "@patternfly/react-icons/dist/esm/icons/layer-group-icon";
import MapMarkerIcon from "@patternfly/react-icons/dist/esm/icons/map-marker-icon";
import MicrochipIcon from "@patternfly/react-icons/dist/esm/icons/microchip-icon";
import ServerIcon from "@patternfly/react-icons/dist/esm/icons/server-icon";
import { useQuery } from "@tanstack/react-query";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useMemo, useState } from "react";
import { openContextMenu } from "../actions/ActionMenu";
import { AlarmBadge } from "../alarms/AlarmBadge";
import { listQuery } from "../api/lists";
import { useRows } from "../api/queries";
import { pathOf } from "../model/kinds";
import { t } from "../text/text";
import { Loaded, NoMatch, StateBlock } from "../ui/states";
import { useStored } from "../ui/stored";
import { useWindow } from "../ui/useWindow";
import {
  type TreeItem,
  type TreeRow,
  type TreeView,
  filterItems,
  treeItems,
  visibleRows,
} from "./treeModel";

const ROW_HEIGHT = 32;
const MAX_GPUS_EXPANDED = 64;
const VIEWS: TreeView[] = ["nodes", "pools", "projects"];
const ICONS = {
  site: MapMarkerIcon,
  node: ServerIcon,
  gpu: MicrochipIcon,
  partition: CubeIcon,
  allocation: CubeIcon,
  pool: LayerGroupIcon,
  project: FolderIcon,
};

interface RowProps {
  row: TreeRow;
  current: boolean;
  selected: boolean;
  onCursor: () => void;
  toggle: () => void;
  open: () => void;
}

function Row({ row, current, onCursor, selected, toggle, open }: RowProps) {
  const { item, depth } = row;
  const Icon = ICONS[item.icon];
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles all keys
    <div
      role="treeitem"
      id={`tree-${item.id}`}
      aria-level={depth + 1}
      aria-setsize={row.siblings}
      aria-posinset={row.position}
      aria-selected={selected}
      aria-expanded={item.children.length > 0 ? row.expanded : undefined}
      tabIndex={-1}
      className={`bb-treerow ${selected ? "bb-treerow--selected" : ""} ${current ? "bb-treerow--current" : ""}`}
      style={{ height: ROW_HEIGHT, paddingInlineStart: `${depth * 1.1 + 0.25}rem` }}
      title={item.label}
      onClick={() => {
        onCursor();
        open();
      }}
      onContextMenu={(e) => item.target && openContextMenu(e, item.target)}
    >
      <span
        className="bb-treerow__toggle"
        aria-hidden
        onClick={(e) => {
          e.stopPropagation();
          toggle();
        }}
      >
        {item.children.length > 0 && (row.expanded ? <AngleDownIcon /> : <AngleRightIcon />)}
      </span>
      <Icon className={item.health ? `bb-health--${item.health}` : "bb-treerow__icon"} />
      <bdi className="bb-treerow__label">{item.label}</bdi> <AlarmBadge alarms={item.alarms} />
      {item.trouble && <span className="bb-treerow__trouble">{item.trouble}</span>}{" "}
      <span className="bb-treerow__badge">{item.badge}</span>
    </div>
  );
}

/** Return the row after a key, or null if the key is not of the tree. */
function rowAfter(key: string, at: number, rows: TreeRow[]): number | null {
  const page = 12;
  const steps: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    Home: 0,
    End: rows.length - 1,
    PageDown: at + page,
    PageUp: at - page,
  };
  const next = steps[key];
  return next === undefined ? null : Math.max(0, Math.min(rows.length - 1, next));
}

interface RowsProps {
  rows: TreeRow[];
  expand: (item: TreeItem, on: boolean) => void;
}

/** The row with the cursor, and the keys that move it, expand its item and open it. */
function useCursor({ rows, expand }: RowsProps, reveal: (index: number) => void) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const [cursor, setCursor] = useState("");
  const found = rows.findIndex((r) => r.item.id === cursor);
  const selected = rows.findIndex((r) => r.item.target && pathOf(r.item.target) === pathname);
  const at = Math.max(0, found >= 0 ? found : selected);
  const moveTo = (index: number) => {
    setCursor(rows[index]?.item.id ?? "");
    reveal(index);
  };
  const open = (row: TreeRow) => {
    if (row.item.target) void navigate({ to: pathOf(row.item.target) });
    else expand(row.item, !row.expanded);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const row = rows[at];
    if (!row) return;
    const next = rowAfter(e.key, at, rows);
    if (next !== null) moveTo(next);
    else if (e.key === "ArrowRight" && row.expanded) moveTo(at + 1);
    else if (e.key === "ArrowRight" && row.item.children.length > 0) expand(row.item, true);
    else if (e.key === "ArrowLeft" && row.expanded) expand(row.item, false);
    else if (e.key === "ArrowLeft" && row.parent >= 0) moveTo(row.parent);
    else if (e.key === "Enter" || e.key === " ") open(row);
    else return;
    e.preventDefault();
  };
  return { current: rows[at], selected: rows[selected], setCursor, open, onKeyDown };
}

function Rows({ rows, expand }: RowsProps) {
  const view = useWindow(rows.length, ROW_HEIGHT);
  const { current, selected, setCursor, open, onKeyDown } = useCursor(
    { rows, expand },
    view.reveal,
  );
  const shown = rows.slice(view.start, view.end);
  const active = shown.find((r) => r === current);
  return (
    <div
      ref={view.container}
      role="tree"
      aria-label={t("tree.label")}
      tabIndex={0}
      aria-activedescendant={active ? `tree-${active.item.id}` : undefined}
      className="bb-treerows"
      onKeyDown={onKeyDown}
      onContextMenu={(e) => {
        const target = current?.item.target;
        // The context-menu key has no pointer position.
        if (target && e.target === e.currentTarget) openContextMenu(e, target);
      }}
    >
      <div role="presentation" style={{ height: view.start * ROW_HEIGHT }} />
      {shown.map((row) => (
        <Row
          key={row.item.id}
          row={row}
          current={row === current}
          selected={Boolean(row.item.target) && row === selected}
          onCursor={() => setCursor(row.item.id)}
          toggle={() => expand(row.item, !row.expanded)}
          open={() => open(row)}
        />
      ))}
      <div role="presentation" style={{ height: (rows.length - view.end) * ROW_HEIGHT }} />
    </div>
  );
}

function Tree({ view, filter, clear }: { view: TreeView; filter: string; clear: () => void }) {
  const [nodes, gpus, pools] = [useRows("node"), useRows("gpu"), useRows("pool")];
  const [partitions, allocations] = [useRows("partition"), useRows("allocation")];
  const alarms = useRows("alarm");
  const projects = useQuery({ ...listQuery("projects"), enabled: view === "projects" }).data;
  const [expanded, setExpanded] = useStored<Record<string, boolean>>(`tree.${view}`, {});
  const items = useMemo(
    () => treeItems(view, { nodes, gpus, pools, partitions, allocations, alarms }, projects ?? []),
    [view, nodes, gpus, pools, partitions, allocations, alarms, projects],
  );
  const rows = useMemo(() => {
    const few = gpus.length <= MAX_GPUS_EXPANDED;
    const shown = filterItems(items, filter);
    return visibleRows(shown, (item, depth) =>
      filter ? true : (expanded[item.id] ?? (few || (item.icon === "site" && depth === 0))),
    );
  }, [items, filter, expanded, gpus.length]);
  if (items.length === 0)
    return view === "nodes" ? (
      <StateBlock
        level="h3"
        title={t("tree.noNodes")}
        body={<code>busbar node add ssh://root@HOST</code>}
      />
    ) : (
      <StateBlock level="h3" title={t("state.none")} />
    );
  if (rows.length === 0) return <NoMatch filter={filter} clear={clear} />;
  return <Rows rows={rows} expand={(item, on) => setExpanded({ ...expanded, [item.id]: on })} />;
}

export function InventoryTree() {
  const [view, setView] = useStored<TreeView>("tree.view", "nodes");
  const [filter, setFilter] = useState("");
  return (
    <div className="bb-treepane">
      <ToggleGroup aria-label={t("tree.view")} isCompact>
        {VIEWS.map((v) => (
          <ToggleGroupItem
            key={v}
            text={t(`tree.${v}`)}
            buttonId={`tree-view-${v}`}
            isSelected={v === view}
            onChange={() => setView(v)}
          />
        ))}
      </ToggleGroup>
      <SearchInput
        aria-label={t("tree.filter")}
        placeholder={t("common.filter")}
        value={filter}
        onChange={(_, v) => setFilter(v)}
        onClear={() => setFilter("")}
      />
      <Loaded kinds={["node", "gpu", "partition"]} optional={["pool", "allocation"]}>
        <Tree key={view} view={view} filter={filter} clear={() => setFilter("")} />
      </Loaded>
    </div>
  );
}
