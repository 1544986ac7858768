// Tabs of a workspace. Only the chosen pane is rendered; each pane fails alone.
import { PageSection, Tab, TabTitleText, Tabs } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { type Key, t } from "../text/text";
import { PaneBoundary } from "./PaneBoundary";
import { useTab } from "./useTab";

export interface Pane {
  id: string;
  label: Key;
  content: () => ReactNode;
}

export function TabPanes({ panes, label }: { panes: readonly Pane[]; label: string }) {
  const [tab, setTab] = useTab(panes.map((p) => p.id));
  const shown = panes.find((p) => p.id === tab) ?? panes[0];
  return (
    <PageSection className="bb-tabs">
      <Tabs
        activeKey={tab}
        onSelect={(_, key) => setTab(String(key))}
        mountOnEnter
        unmountOnExit
        aria-label={label}
      >
        {panes.map((p) => (
          <Tab key={p.id} eventKey={p.id} title={<TabTitleText>{t(p.label)}</TabTitleText>}>
            <div className="bb-stack bb-tab">
              {p === shown && <PaneBoundary resetKey={p.id}>{p.content()}</PaneBoundary>}
            </div>
          </Tab>
        ))}
      </Tabs>
    </PageSection>
  );
}
