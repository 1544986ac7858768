import { createContext, use } from "react";
import type { Me } from "../api/client";

export interface Account {
  me: Me;
  /** What is shown follows the appliance. */
  live: boolean;
}
export const AccountContext = createContext<Account | null>(null);

export function useAccount(): Account {
  const account = use(AccountContext);
  if (!account) throw new Error("outside of the gate");
  return account;
}

/** Empty when the user may; otherwise why not, for the button's title. */
export function useDenied(privilege: string): string {
  return useAccount().me.privileges.includes(privilege) ? "" : `Your roles do not include ${privilege}.`;
}
