import type { Schema } from "../api/client";

type Privilege = Schema<"PrivilegesEnum">;

/** The record makes the compiler require every privilege of the API. */
const ALL: Record<Privilege, true> = {
  "account.self": true,
  "accounts.manage": true,
  "activity.view": true,
  "alarms.acknowledge": true,
  "alarms.manage": true,
  "alarms.view": true,
  "allocations.create": true,
  "allocations.force": true,
  "allocations.manage": true,
  "allocations.use": true,
  "allocations.view": true,
  "audit.read": true,
  "fleet.enrol": true,
  "fleet.forget_host_key": true,
  "fleet.rotate_keys": true,
  "fleet.use_ssh_agent": true,
  "inventory.manage": true,
  "inventory.view": true,
  "members.manage": true,
  "pools.manage": true,
  "pools.view": true,
  "settings.manage": true,
};

/** Privileges that a role or a token can have. */
export const PRIVILEGES = Object.keys(ALL) as Privilege[];
