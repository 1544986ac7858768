// Pools and who may use how much of them: projects, departments, quotas, reservations.
import {
  DepartmentsPane,
  PoolsPane,
  ProjectsPane,
  QuotasPane,
  ReservationsPane,
} from "../admin/projects";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { TabPanes } from "../ui/TabPanes";

export default function PoolsPage() {
  return (
    <>
      <PageHeader title={t("nav.poolsLong")} />
      <TabPanes
        label={t("nav.poolsLong")}
        panes={[
          { id: "pools", label: "nav.pools", content: () => <PoolsPane /> },
          { id: "projects", label: "tree.projects", content: () => <ProjectsPane /> },
          { id: "departments", label: "project.departments", content: () => <DepartmentsPane /> },
          { id: "quotas", label: "project.quotas", content: () => <QuotasPane /> },
          {
            id: "reservations",
            label: "project.reservations",
            content: () => <ReservationsPane />,
          },
        ]}
      />
    </>
  );
}
