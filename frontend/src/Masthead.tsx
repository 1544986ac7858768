// Masthead: brand, search, connection, notices, theme and user menu.
import {
  Button,
  Divider,
  Dropdown,
  DropdownGroup,
  DropdownItem,
  DropdownList,
  Label,
  Masthead as Bar,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MastheadToggle,
  MenuToggle,
  PageToggleButton,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
  Tooltip,
} from "@patternfly/react-core";
import BarsIcon from "@patternfly/react-icons/dist/esm/icons/bars-icon";
import MoonIcon from "@patternfly/react-icons/dist/esm/icons/moon-icon";
import SearchIcon from "@patternfly/react-icons/dist/esm/icons/search-icon";
import SunIcon from "@patternfly/react-icons/dist/esm/icons/sun-icon";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useAccount } from "./model/account";
import { applyTheme, isDark, storedTheme } from "./account/theme";
import { openDialog } from "./actions/dialogs";
import { roleText } from "./admin/place";
import { api, unwrap } from "./api/client";
import { timeZone } from "./model/format";
import { Palette } from "./search/Palette";
import { LANGUAGES, type Language, currentLanguage, setLanguage, t } from "./text/text";
import { toastFailure } from "./ui/toasts";

export const openPalette = () => openDialog((close) => <Palette close={close} />);

function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true" className="bb-logo">
      <rect x="3" y="13" width="26" height="6" rx="3" className="bb-logo__bar" />
      <rect x="6" y="4" width="4" height="24" rx="2" />
      <rect x="14" y="4" width="4" height="24" rx="2" />
      <rect x="22" y="4" width="4" height="24" rx="2" />
    </svg>
  );
}

function ThemeButton() {
  const [dark, setDark] = useState(isDark(storedTheme()));
  const label = t(dark ? "frame.toLight" : "frame.toDark");
  return (
    <Tooltip content={label} aria="none">
      <Button
        variant="plain"
        aria-label={label}
        icon={dark ? <SunIcon /> : <MoonIcon />}
        onClick={() => {
          applyTheme(dark ? "light" : "dark");
          setDark(!dark);
        }}
      />
    </Tooltip>
  );
}

/** Return a function that ends the sign-in and forgets everything that the console has read. */
function useSignOut() {
  const cache = useQueryClient();
  return async () => {
    try {
      unwrap(await api.DELETE("/api/v1/browser-login"));
    } catch (problem) {
      return toastFailure(t("frame.signOut"), problem);
    }
    window.dispatchEvent(new window.Event("busbar-sign-out"));
    cache.clear();
    cache.setQueryData(["me"], null);
  };
}

function UserItems() {
  const { me } = useAccount();
  const navigate = useNavigate();
  return (
    <DropdownList>
      <DropdownItem key="roles" isDisabled>
        {me.roles.map(roleText).join("; ")}
      </DropdownItem>
      <DropdownItem key="account" onClick={() => void navigate({ to: "/account" })}>
        {t("frame.account")}
      </DropdownItem>
      <DropdownItem key="api" to="/api/docs" target="_blank">
        {t("frame.apiExplorer")}
      </DropdownItem>
      <DropdownItem key="docs" to="/docs/" target="_blank">
        {t("frame.documentation")}
      </DropdownItem>
    </DropdownList>
  );
}

function LanguageItems() {
  return (
    <DropdownGroup label={t("frame.language")}>
      <DropdownList>
        {(Object.keys(LANGUAGES) as Language[]).map((l) => (
          <DropdownItem
            key={l}
            isSelected={l === currentLanguage()}
            onClick={() => setLanguage(l)}
            lang={l}
          >
            {LANGUAGES[l]}
          </DropdownItem>
        ))}
      </DropdownList>
    </DropdownGroup>
  );
}

function UserMenu() {
  const { me } = useAccount();
  const signOut = useSignOut();
  const [open, setOpen] = useState(false);
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
      <UserItems />
      <Divider />
      <LanguageItems />
      <Divider />
      <DropdownList>
        <DropdownItem key="zone" isDisabled>
          {t("frame.timeZone", { zone: timeZone() })}
        </DropdownItem>
        <DropdownItem key="out" onClick={() => void signOut()}>
          {t("frame.signOut")}
        </DropdownItem>
      </DropdownList>
    </Dropdown>
  );
}

function Brand() {
  return (
    <MastheadMain>
      <MastheadToggle>
        <PageToggleButton
          isHamburgerButton={false}
          variant="plain"
          aria-label={t("frame.navigation")}
          icon={<BarsIcon />}
        />
      </MastheadToggle>
      <MastheadBrand>
        <MastheadLogo component={(props) => <Link {...props} to="/" />} className="bb-brand">
          <Logo />
          <span>Busbar</span>
        </MastheadLogo>
      </MastheadBrand>
    </MastheadMain>
  );
}

function SearchButton() {
  return (
    <Button variant="control" icon={<SearchIcon />} onClick={openPalette} className="bb-search">
      <span className="bb-search__text">{t("frame.searchShort")}</span> <kbd>Ctrl K</kbd>
    </Button>
  );
}

function Connection() {
  const { live } = useAccount();
  return (
    <Label status={live ? "success" : "warning"} variant="outline" isCompact>
      {t(live ? "frame.live" : "frame.reconnecting")}
    </Label>
  );
}

export function Masthead({ bell }: { bell: ReactNode }) {
  return (
    <Bar>
      <Brand />
      <MastheadContent>
        <Toolbar isStatic>
          <ToolbarContent>
            <ToolbarGroup align={{ default: "alignEnd" }} gap={{ default: "gapSm" }}>
              <ToolbarItem alignSelf="center">
                <SearchButton />
              </ToolbarItem>
              <ToolbarItem alignSelf="center">
                <Connection />
              </ToolbarItem>
              <ToolbarItem>{bell}</ToolbarItem>
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
    </Bar>
  );
}
