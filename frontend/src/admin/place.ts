// Texts of the place of a role binding.
import type { Schema } from "../api/client";
import { t } from "../text/text";

type Binding = Partial<Schema<"RoleBinding">>;
/** In the order of the form, from the people's tree to the inventory. */
export const PLACES = ["project", "department", "site", "node", "gpu", "pool"] as const;

/** Return the kind and name of the place; without one the role holds everywhere. */
export function placeText(binding: Binding): string {
  const kind = PLACES.find((place) => binding[place]);
  if (!kind) return t("people.everywhere");
  return `${t(`kind.${kind}s`)} ${binding[kind]}`;
}

/** Return a role with its place, and the group that it comes from. */
export const roleText = (b: Binding & { role: string }): string =>
  [b.role, b.group ? `${t("field.group")} ${b.group}` : "", placeText(b)]
    .filter(Boolean)
    .join(", ");
