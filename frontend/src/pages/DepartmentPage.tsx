// Workspace of a department: a group of projects.
import { useQuery } from "@tanstack/react-query";
import { AccessPane } from "../admin/AccessPane";
import { BindingTable } from "../admin/BindingTable";
import { Detail } from "../admin/useDetail";
import { listQuery } from "../api/lists";
import { DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";

function Projects({ department }: { department: string }) {
  const projects = useQuery(listQuery("projects"));
  return (
    <Panel title={t("tree.projects")}>
      <QueryState query={projects}>
        {(rows) => (
          <DataTable
            table="departmentProjects"
            label={t("tree.projects")}
            rows={rows.filter((p) => p.department === department)}
            columns={[{ id: "name", label: "field.name", value: (p) => p.name }]}
            target={(p) => ({ kind: "projects", id: p.id, name: p.name })}
          />
        )}
      </QueryState>
    </Panel>
  );
}

export default function DepartmentPage() {
  return (
    <Detail
      list="departments"
      kind="departments"
      name={(d) => d.name}
      trail={[[t("nav.pools"), "/pools?tab=departments"]]}
      panes={(d, target) => [
        { id: "summary", label: "tab.summary", content: () => <Projects department={d.name} /> },
        {
          id: "permissions",
          label: "tab.permissions",
          content: () => (
            <>
              <BindingTable filter={{ department: d.name }} />
              <AccessPane target={target} />
            </>
          ),
        },
      ]}
    />
  );
}
