import type { Schema } from "../api/client";
import apiFields from "../api/fields.json";

/** Privileges that a role or a token can have. */
export const PRIVILEGES = apiFields.roles.properties.privileges.items
  .enum as Schema<"PrivilegesEnum">[];
