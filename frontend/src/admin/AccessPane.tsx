// Shows the privileges of a user at an object, and the bindings that grant them.
import { useQuery } from "@tanstack/react-query";
import { Label, LabelGroup, TextInput } from "@patternfly/react-core";
import { useDeferredValue, useState } from "react";
import { type Schema, api, unwrap } from "../api/client";
import { useAccount } from "../model/account";
import type { Target } from "../model/kinds";
import { type Column, DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";
import { roleText } from "./place";

type Source = Schema<"PrivilegeSource"> & { id: string };

const COLUMNS: Column<Source>[] = [
  { id: "name", label: "access.privilege", value: (s) => s.name },
  {
    id: "bindings",
    label: "access.through",
    value: (s) => s.bindings.map(roleText).join("; "),
    cell: (s) => (
      <LabelGroup>
        {s.bindings.map((b) => (
          <Label key={b.id} isCompact>
            {roleText(b)}
          </Label>
        ))}
      </LabelGroup>
    ),
  },
];

export function AccessPane({ target }: { target?: Pick<Target, "kind" | "id"> }) {
  const { me } = useAccount();
  const [typed, setTyped] = useState(me.username);
  const user = useDeferredValue(typed);
  const object = target ? `${target.kind}/${target.id}` : undefined;
  const access = useQuery({
    queryKey: ["detail", "access", user, object],
    queryFn: () =>
      api
        .GET("/api/v1/access", {
          params: { query: { user, ...(object ? { object } : {}) } },
        })
        .then(unwrap),
    retry: false,
  });
  const asksOthers = me.privileges.includes("accounts.manage");
  return (
    <Panel title={t("access.may", { user })}>
      {asksOthers && (
        <TextInput
          aria-label={t("access.user")}
          value={typed}
          onChange={(_, v) => setTyped(v)}
          className="bb-narrow"
        />
      )}
      <QueryState query={access}>
        {(data) => (
          <DataTable
            table="privileges"
            label={t("access.privileges")}
            rows={data.privileges.map((p) => ({ ...p, id: p.name }))}
            columns={COLUMNS}
            hasFilter={false}
          />
        )}
      </QueryState>
    </Panel>
  );
}
