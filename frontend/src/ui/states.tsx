// Designed states: loading, failed, empty, no match, forbidden and missing are different things.
import {
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
  Skeleton,
} from "@patternfly/react-core";
import SearchIcon from "@patternfly/react-icons/dist/esm/icons/search-icon";
import { type UseQueryResult, useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Problem } from "../api/client";
import { rowsQuery, useLoaded } from "../api/queries";
import type { Kind } from "../api/rows";
import { t } from "../text/text";

interface StateBlockProps {
  title: string;
  body?: ReactNode;
  action?: ReactNode;
  status?: "danger" | "warning" | "info";
  level?: "h1" | "h2" | "h3";
}

export function StateBlock({ title, body, action, status, level = "h2" }: StateBlockProps) {
  return (
    <EmptyState
      variant="sm"
      titleText={title}
      headingLevel={level}
      {...(status ? { status } : {})}
      role={status === "danger" ? "alert" : undefined}
    >
      {body && <EmptyStateBody>{body}</EmptyStateBody>}
      {action && (
        <EmptyStateFooter>
          <EmptyStateActions>{action}</EmptyStateActions>
        </EmptyStateFooter>
      )}
    </EmptyState>
  );
}

export function LoadingState() {
  return (
    <div className="bb-loading" role="status" aria-label={t("state.loading")}>
      <Skeleton width="35%" />
      <Skeleton height="5rem" />
      <Skeleton width="70%" />
    </div>
  );
}

const isForbidden = (error: unknown): error is Problem =>
  error instanceof Problem && error.status === 403;

export function ErrorState({ error, retry }: { error: unknown; retry: () => void }) {
  if (isForbidden(error))
    return <StateBlock status="warning" title={t("state.forbidden")} body={error.message} />;
  const reason = error instanceof Error ? error.message : String(error);
  return (
    <StateBlock
      status="danger"
      title={t("state.failed")}
      body={t("state.failedBody", { reason })}
      action={
        <Button variant="secondary" onClick={retry}>
          {t("state.retry")}
        </Button>
      }
    />
  );
}

export function ForbiddenState({ privilege }: { privilege: string }) {
  return (
    <StateBlock
      status="warning"
      title={t("state.forbidden")}
      body={t("state.forbiddenBody", { privilege })}
    />
  );
}

export function NoMatch({ filter, clear }: { filter: string; clear: () => void }) {
  return (
    <EmptyState variant="xs" titleText={t("state.noMatch")} headingLevel="h3" icon={SearchIcon}>
      <EmptyStateBody>{t("state.noMatchBody", { filter })}</EmptyStateBody>
      <EmptyStateFooter>
        <Button variant="link" onClick={clear}>
          {t("state.clearFilter")}
        </Button>
      </EmptyStateFooter>
    </EmptyState>
  );
}

/** Page of an object that does not exist, or that the user may not see. */
export function MissingPage({ what }: { what: string }) {
  return (
    <PageSection isFilled>
      <EmptyState titleText={t("state.missing", { what })} headingLevel="h1">
        <EmptyStateBody>
          {t("state.missingBody")} <Link to="/">{t("state.back")}</Link>
        </EmptyStateBody>
      </EmptyState>
    </PageSection>
  );
}

/** Show a query's result, or its loading or failed state. A failed reload keeps the old data. */
export function QueryState<T>({
  query,
  children,
}: {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return <LoadingState />;
}

interface LoadedProps {
  kinds: readonly Kind[];
  /** Kinds that the page shows to those who may view them: see `Permitted`. */
  optional?: readonly Kind[];
  children: ReactNode;
}

/** Show children when the live lists of these kinds are loaded. */
export function Loaded({ kinds, optional = [], children }: LoadedProps) {
  const read = useQueries({
    queries: [...kinds, ...optional].map((kind) => rowsQuery(kind) as ReturnType<typeof rowsQuery>),
  });
  const queries = read.filter((q, i) => i < kinds.length || !isForbidden(q.error));
  const failed = queries.find((q) => q.data === undefined && q.error);
  if (failed)
    return (
      <ErrorState
        error={failed.error}
        retry={() => {
          for (const q of queries) if (q.error) void q.refetch();
        }}
      />
    );
  return queries.every((q) => q.data !== undefined) ? children : <LoadingState />;
}

/** Show children to those who may view this optional kind of the `Loaded` around it. */
export function Permitted({ kind, children }: { kind: Kind; children: ReactNode }) {
  return useLoaded(kind) ? children : null;
}
