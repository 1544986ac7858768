// Page frame: masthead, primary navigation, inventory tree, current page, recent tasks.
import {
  Button,
  Divider,
  Dropdown,
  DropdownItem,
  DropdownList,
  Label,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MastheadToggle,
  MenuToggle,
  Nav,
  NavItem,
  NavList,
  Page,
  PageSidebar,
  PageSidebarBody,
  PageToggleButton,
  Title,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
  Tooltip,
} from "@patternfly/react-core";
import BarsIcon from "@patternfly/react-icons/dist/esm/icons/bars-icon";
import MoonIcon from "@patternfly/react-icons/dist/esm/icons/moon-icon";
import SunIcon from "@patternfly/react-icons/dist/esm/icons/sun-icon";
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAccount } from "./account/account";
import { applyTheme, isDark, storedTheme } from "./account/theme";
import { api } from "./api/client";
import logo from "./busbar.svg";
import { InventoryTree } from "./inventory/InventoryTree";
import { TasksPane } from "./tasks/TasksPane";

function ThemeButton() {
  const [dark, setDark] = useState(isDark(storedTheme()));
  const toggle = () => {
    applyTheme(dark ? "light" : "dark");
    setDark(!dark);
  };
  return (
    <Tooltip content={dark ? "Light theme" : "Dark theme"}>
      <Button
        variant="plain"
        aria-label={dark ? "Use light theme" : "Use dark theme"}
        icon={dark ? <SunIcon /> : <MoonIcon />}
        onClick={toggle}
      />
    </Tooltip>
  );
}

function UserMenu() {
  const cache = useQueryClient();
  const { me } = useAccount();
  const [open, setOpen] = useState(false);
  const signOut = async () => {
    await api.DELETE("/api/v1/browser-login");
    cache.setQueryData(["me"], null);
  };
  return (
    <Dropdown
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={() => setOpen(false)}
      popperProps={{ position: "end" }}
      toggle={(ref) => (
        <MenuToggle ref={ref} variant="plainText" isExpanded={open} onClick={() => setOpen(!open)}>
          {me.username}
        </MenuToggle>
      )}
    >
      <DropdownList>
        <DropdownItem isDisabled key="roles">
          {me.roles.map((r) => (r.project ? `${r.role} in ${r.project}` : r.role)).join(", ")}
        </DropdownItem>
        <DropdownItem key="api" to="/api/docs" target="_blank">
          API explorer
        </DropdownItem>
        <Divider component="li" />
        <DropdownItem key="out" onClick={signOut}>
          Sign out
        </DropdownItem>
      </DropdownList>
    </Dropdown>
  );
}

function Header() {
  const { live } = useAccount();
  return (
    <Masthead>
      <MastheadMain>
        <MastheadToggle>
          <PageToggleButton
            isHamburgerButton={false}
            variant="plain"
            aria-label="Navigation"
            icon={<BarsIcon />}
          />
        </MastheadToggle>
        <MastheadBrand>
          <MastheadLogo component={(props) => <Link {...props} to="/" />} className="bb-brand">
            <img src={logo} alt="" width={28} height={28} />
            <span>Busbar</span>
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isStatic>
          <ToolbarContent>
            <ToolbarGroup align={{ default: "alignEnd" }} gap={{ default: "gapSm" }}>
              <ToolbarItem alignSelf="center">
                <Label status={live ? "success" : "warning"} variant="outline" isCompact>
                  {live ? "live" : "reconnecting"}
                </Label>
              </ToolbarItem>
              <ToolbarItem>
                <ThemeButton />
              </ToolbarItem>
              <ToolbarItem>
                <UserMenu />
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
}

const NAV_ITEMS = [
  { to: "/", text: "Overview" },
  { to: "/allocations", text: "Allocations" },
  { to: "/events", text: "Events" },
] as const;

function PrimaryNav() {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  return (
    <Nav
      aria-label="Primary"
      onSelect={(e, item) => {
        e.preventDefault();
        navigate({ to: item.to });
      }}
    >
      <NavList>
        {NAV_ITEMS.map((p) => (
          <NavItem key={p.to} to={p.to} isActive={pathname === p.to}>
            {p.text}
          </NavItem>
        ))}
      </NavList>
    </Nav>
  );
}

export function Shell() {
  return (
    <Page
      masthead={<Header />}
      isManagedSidebar
      isContentFilled
      mainAriaLabel="Workspace"
      sidebar={
        <PageSidebar>
          <PageSidebarBody>
            <PrimaryNav />
          </PageSidebarBody>
          <PageSidebarBody isFilled className="bb-tree">
            <nav aria-label="Inventory">
              <Title headingLevel="h2" size="md" className="bb-tree__title">
                Nodes
              </Title>
              <InventoryTree />
            </nav>
          </PageSidebarBody>
        </PageSidebar>
      }
    >
      <div className="bb-workspace">
        <div className="bb-workspace__page">
          <Outlet />
        </div>
        <TasksPane />
      </div>
    </Page>
  );
}
