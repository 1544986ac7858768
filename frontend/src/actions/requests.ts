// Requests of the actions.
import { type Schema, api, idempotencyKey, unwrap } from "../api/client";
import type { Actionable } from "../model/kinds";
import { turn } from "./edit";

const headers = () => idempotencyKey();

export const cordon = async (node_id: string) =>
  unwrap(await api.POST("/api/v1/nodes/{node_id}/cordon", { params: { path: { node_id } } }));
export const uncordon = async (node_id: string) =>
  unwrap(await api.POST("/api/v1/nodes/{node_id}/uncordon", { params: { path: { node_id } } }));
export const drainNode = async (node_id: string, grace_seconds: number) =>
  unwrap(
    await api.POST("/api/v1/nodes/{node_id}/enter-maintenance", {
      params: { path: { node_id } },
      body: { grace_seconds },
      headers: headers(),
    }),
  );
export const endMaintenance = async (node_id: string) =>
  unwrap(
    await api.POST("/api/v1/nodes/{node_id}/exit-maintenance", { params: { path: { node_id } } }),
  );
export const unlock = async (node_id: string) =>
  unwrap(await api.POST("/api/v1/nodes/{node_id}/unlock", { params: { path: { node_id } } }));
export const removeNode = async (node_id: string) =>
  unwrap(await api.DELETE("/api/v1/nodes/{node_id}", { params: { path: { node_id } } }));

export const admitGpu = async (gpu_id: string, pool: string) =>
  unwrap(
    await api.POST("/api/v1/gpus/{gpu_id}/admit", {
      params: { path: { gpu_id } },
      body: pool ? { pool } : {},
    }),
  );

export const createPool = async (body: Schema<"PoolRequest">) =>
  unwrap(await api.POST("/api/v1/pools", { body, headers: headers() }));
export const deletePool = async (pool_id: string) =>
  unwrap(await api.DELETE("/api/v1/pools/{pool_id}", { params: { path: { pool_id } } }));

export const deleteProject = async (project_id: string) =>
  unwrap(await api.DELETE("/api/v1/projects/{project_id}", { params: { path: { project_id } } }));
export const deleteDepartment = async (department_id: string) =>
  unwrap(
    await api.DELETE("/api/v1/departments/{department_id}", {
      params: { path: { department_id } },
    }),
  );

const allocationAt = (allocation_id: string) => ({ params: { path: { allocation_id } } });
export const release = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/allocations/{allocation_id}", allocationAt(id)));
export const suspend = async (id: string) =>
  unwrap(
    await api.POST("/api/v1/allocations/{allocation_id}/suspend", {
      ...allocationAt(id),
      headers: headers(),
    }),
  );
export const resume = async (id: string) =>
  unwrap(
    await api.POST("/api/v1/allocations/{allocation_id}/resume", {
      ...allocationAt(id),
      headers: headers(),
    }),
  );
export const forceRelease = async (id: string) =>
  unwrap(await api.POST("/api/v1/allocations/{allocation_id}/force-release", allocationAt(id)));

const userAt = (user_id: string) => ({ params: { path: { user_id } } });
export const setActive = (user: Actionable, on: boolean) =>
  turn("users", user, { name: "is_active", label: "field.active", type: "switch" }, on);
export const deleteUser = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/users/{user_id}", userAt(id)));
export const newPassword = async (id: string) =>
  unwrap(await api.POST("/api/v1/users/{user_id}/reset-password", userAt(id)));
export const resetSecondFactor = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/users/{user_id}/second-factor", userAt(id)));

const groupAt = (group_id: string) => ({ params: { path: { group_id } } });
export const deleteGroup = async (id: string) =>
  unwrap(await api.DELETE("/api/v1/groups/{group_id}", groupAt(id)));
export const addMember = async (id: string, body: Schema<"GroupMemberRequest">) =>
  unwrap(await api.POST("/api/v1/groups/{group_id}/members", { ...groupAt(id), body }));
export const removeMember = async (group_id: string, member_id: string) =>
  unwrap(
    await api.DELETE("/api/v1/groups/{group_id}/members/{member_id}", {
      params: { path: { group_id, member_id } },
    }),
  );
