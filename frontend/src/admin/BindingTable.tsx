// Role bindings that concern one object, with their removal.
import { useQuery } from "@tanstack/react-query";
import { type Schema, api, readAllPages, unwrap } from "../api/client";
import type { Actionable } from "../model/kinds";
import { DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";
import { placeText } from "./place";

type Binding = Schema<"RoleBinding">;
export type BindingFilter = Partial<Record<"user" | "group" | "project" | "department", string>>;

export const bindingActionable = (b: Binding): Actionable => ({
  kind: "role-bindings",
  id: b.id,
  name: `${b.role}, ${b.user ?? b.group ?? ""}`,
});

export function BindingTable({ filter }: { filter: BindingFilter }) {
  const bindings = useQuery({
    queryKey: ["list", "bindings", filter],
    queryFn: () =>
      readAllPages<Binding>((cursor) =>
        api
          .GET("/api/v1/role-bindings", { params: { query: { ...filter, limit: 500, cursor } } })
          .then(unwrap),
      ),
  });
  return (
    <Panel title={t("people.bindings")}>
      <QueryState query={bindings}>
        {(rows) => (
          <DataTable
            table="objectBindings"
            label={t("people.bindings")}
            rows={rows}
            hasFilter={false}
            actionable={bindingActionable}
            hasBulk
            columns={[
              { id: "role", label: "people.role", value: (b) => b.role },
              { id: "who", label: "people.who", value: (b) => b.user ?? b.group ?? "" },
              {
                id: "where",
                label: "people.where",
                value: placeText,
              },
            ]}
          />
        )}
      </QueryState>
    </Panel>
  );
}
