import { createContext, use } from "react";
import type { Me } from "../api/client";
import { coded, t } from "../text/text";

export interface Account {
  me: Me;
  /** The live feed is connected. */
  live: boolean;
  /** When it was last connected, during an outage. */
  lastLive: string | null;
}
export const AccountContext = createContext<Account | null>(null);

export function useAccount(): Account {
  const account = use(AccountContext);
  if (!account) throw new Error("useAccount requires an AccountContext");
  return account;
}

/** Return the reason why the user lacks a privilege, or an empty string. */
export function deniedText(me: Me, privilege: string): string {
  return me.privileges.includes(privilege)
    ? ""
    : t("denied.privilege", { privilege: coded("privilege", privilege, privilege) });
}
export const useDenied = (privilege: string): string => deniedText(useAccount().me, privilege);
