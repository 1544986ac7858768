import { createContext, use } from "react";
import { coded, t } from "../text/text";
import type { Me } from "../api/client";

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
export function useDenied(privilege: string): string {
  return useAccount().me.privileges.includes(privilege)
    ? ""
    : t("denied.privilege", { privilege: coded("privilege", privilege, privilege) });
}
