// Requests of the actions on objects that only lists show.
import { api, idempotencyKey, unwrap } from "../api/client";
import type { Actionable } from "../model/kinds";
import { turn } from "./edit";

const roleAt = (role_id: string) => ({ params: { path: { role_id } } });
export const deleteRole = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/roles/{role_id}", roleAt(id)));

export const deleteBinding = async (binding_id: string) =>
  unwrap(
    await api.DELETE("/api/v1/role-bindings/{binding_id}", { params: { path: { binding_id } } }),
  );
export const revokeToken = async (token_id: string) =>
  unwrap(await api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id } } }));

const quotaAt = (quota_id: string) => ({ params: { path: { quota_id } } });
export const deleteQuota = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/quotas/{quota_id}", quotaAt(id)));

export const deleteReservation = async (reservation_id: string) =>
  unwrap(
    await api.DELETE("/api/v1/reservations/{reservation_id}", {
      params: { path: { reservation_id } },
    }),
  );

const siteAt = (site_id: string) => ({ params: { path: { site_id } } });
export const deleteSite = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/sites/{site_id}", siteAt(id)));

const definitionAt = (definition_id: string) => ({
  params: { path: { definition_id } },
});
export const enableDefinition = (definition: Actionable, on: boolean) =>
  turn(
    "alarm-definitions",
    definition,
    { name: "enabled", label: "alarm.enabled", type: "switch" },
    on,
  );
export const deleteDefinition = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/alarm-definitions/{definition_id}", definitionAt(id)));
export const acknowledgeAlarm = async (alarm_id: string, text: string) =>
  unwrap(
    await api.POST("/api/v1/alarms/{alarm_id}/acknowledge", {
      params: { path: { alarm_id } },
      body: { text },
    }),
  );

export const cancelTask = async (task_id: string) =>
  unwrap(
    await api.POST("/api/v1/tasks/{task_id}/cancel", {
      params: { path: { task_id } },
      headers: idempotencyKey(),
    }),
  );
