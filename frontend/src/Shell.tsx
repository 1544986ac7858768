// Page frame: masthead, navigation, inventory tree, current page, recent tasks and events.
import {
  Alert,
  AlertActionLink,
  Nav,
  NavItem,
  NavList,
  Page,
  PageSidebar,
  PageSidebarBody,
  SkipToContent,
} from "@patternfly/react-core";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import { Masthead, openPalette } from "./Masthead";
import { useAccount } from "./model/account";
import { ContextMenu } from "./actions/ActionMenu";
import { DialogHost } from "./actions/dialogs";
import { InventoryTree } from "./inventory/InventoryTree";
import { SimulatedBanner } from "./inventory/Simulated";
import { BELL, NoticeBell } from "./notices/NoticeBell";
import { NoticeDrawer } from "./notices/NoticeDrawer";
import { useNotices } from "./notices/notices";
import { visiblePages } from "./model/mainPages";
import { time } from "./model/format";
import { Dock } from "./tasks/Dock";
import { t } from "./text/text";
import { ConfirmDialog } from "./ui/confirm";
import { PaneBoundary } from "./ui/PaneBoundary";
import { ToastRegion } from "./ui/toasts";

const VERSION_CHECK_MS = 5 * 60_000;
const PAGE = "page";

function PrimaryNav() {
  const navigate = useNavigate();
  const { me } = useAccount();
  const { pathname } = useLocation();
  const isActive = (to: string) => (to === "/" ? pathname === "/" : pathname.startsWith(to));
  return (
    <Nav
      aria-label={t("frame.primary")}
      onSelect={(e, item) => {
        e.preventDefault();
        void navigate({ to: item.to });
      }}
    >
      <NavList>
        {visiblePages(me).map((p) => (
          <NavItem key={p.to} to={p.to} isActive={isActive(p.to)}>
            {t(p.label)}
          </NavItem>
        ))}
      </NavList>
    </Nav>
  );
}

/** Whether the appliance serves another version of the console than this page. */
function useNewVersion(): boolean {
  const [isNew, setNew] = useState(false);
  const { live } = useAccount();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a reconnection is a reason to look
  useEffect(() => {
    const look = async () => {
      const entry = document.querySelector<HTMLScriptElement>('script[type="module"]')?.src;
      const response = await fetch("/", { cache: "no-cache" }).catch(() => undefined);
      if (!entry || !response?.ok) return;
      setNew(!(await response.text()).includes(new URL(entry).pathname));
    };
    const timer = window.setInterval(() => void look(), VERSION_CHECK_MS);
    void look();
    return () => window.clearInterval(timer);
  }, [live]);
  return isNew;
}

function Banners() {
  const { live, lastLive } = useAccount();
  const isNew = useNewVersion();
  return (
    <>
      {!live && lastLive && (
        <Alert
          variant="warning"
          isInline
          component="p"
          title={t("frame.stale", { time: time(lastLive) })}
          className="bb-banner"
        />
      )}
      <SimulatedBanner />
      {live && isNew && (
        <Alert
          variant="info"
          isInline
          component="p"
          title={t("frame.newVersion")}
          className="bb-banner"
          actionLinks={
            <AlertActionLink onClick={() => location.reload()}>{t("frame.reload")}</AlertActionLink>
          }
        />
      )}
    </>
  );
}

/** The current page in its own scroll area, which starts at the top on each page. */
function Workspace() {
  const { pathname } = useLocation();
  const area = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page starts at its top
  useEffect(() => {
    area.current?.scrollTo(0, 0); // returns a promise, which would be taken for a clean-up
  }, [pathname]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <div className="bb-workspace__page" ref={area} id={PAGE} tabIndex={0}>
      <PaneBoundary resetKey={pathname}>
        <Outlet />
      </PaneBoundary>
    </div>
  );
}

/** State of the drawer of notices. Closing it marks the failures as seen. */
function useNoticeDrawer() {
  const [isOpen, setOpen] = useState(false);
  const notices = useNotices();
  const { markSeen } = notices;
  const close = useCallback(() => {
    setOpen(false);
    document.getElementById(BELL)?.focus();
    markSeen();
  }, [markSeen]);
  return { notices, isOpen, close, toggle: isOpen ? close : () => setOpen(true) };
}

/** Open the palette with Ctrl-K. */
function usePaletteKey() {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey)) return;
      e.preventDefault();
      openPalette();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

function Sidebar() {
  return (
    <PageSidebar>
      <PageSidebarBody>
        <PrimaryNav />
      </PageSidebarBody>
      <PageSidebarBody isFilled className="bb-tree">
        <nav aria-label={t("frame.inventory")}>
          <PaneBoundary>
            <InventoryTree />
          </PaneBoundary>
        </nav>
      </PageSidebarBody>
    </PageSidebar>
  );
}

export function Shell() {
  const { notices, isOpen, close, toggle } = useNoticeDrawer();
  usePaletteKey();
  return (
    <Page
      masthead={<Masthead bell={<NoticeBell {...{ notices, isOpen, toggle }} />} />}
      isManagedSidebar
      isContentFilled
      skipToContent={<SkipToContent href={`#${PAGE}`}>{t("frame.skip")}</SkipToContent>}
      mainAriaLabel={t("frame.workspace")}
      sidebar={<Sidebar />}
    >
      <div className="bb-workspace">
        <Banners />
        <Workspace />
        <PaneBoundary>
          <Dock />
        </PaneBoundary>
        {isOpen && (
          <PaneBoundary>
            <NoticeDrawer notices={notices} close={close} />
          </PaneBoundary>
        )}
      </div>
      <PaneBoundary>
        <DialogHost />
        <ConfirmDialog />
      </PaneBoundary>
      <ContextMenu />
      <ToastRegion />
    </Page>
  );
}
