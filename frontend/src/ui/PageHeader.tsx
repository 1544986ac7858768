// Head of a page: breadcrumb, title, states and actions. The title and focus follow the page.
import { Breadcrumb, BreadcrumbItem, Flex, PageSection, Title } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";

let first = true;

interface PageHeaderProps {
  title: string;
  detail?: ReactNode;
  labels?: ReactNode;
  actions?: ReactNode;
  /** Ancestors: text and path. */
  trail?: readonly (readonly [text: string, to: string])[];
}

/** Give the window the title, and the heading the focus after navigation. */
function useHeading(title: string) {
  const heading = useRef<HTMLDivElement>(null);
  useEffect(() => {
    document.title = `${title} – Busbar`;
  }, [title]);
  useEffect(() => {
    // The first page leaves the focus to the browser.
    if (!first && !document.querySelector('[role="dialog"]'))
      heading.current?.querySelector("h1")?.focus({ preventScroll: true });
    first = false;
  }, []);
  return heading;
}

function Trail({ title, trail }: Required<Pick<PageHeaderProps, "title" | "trail">>) {
  return (
    <Breadcrumb>
      {trail.map(([text, to]) => (
        <BreadcrumbItem
          key={to + text}
          render={({ className }) => (
            <Link
              className={className}
              to={to.split("?")[0]}
              search={Object.fromEntries(new URLSearchParams(to.split("?")[1] ?? "")) as never}
            >
              {text}
            </Link>
          )}
        />
      ))}
      <BreadcrumbItem isActive>{title}</BreadcrumbItem>
    </Breadcrumb>
  );
}

export function PageHeader({ title, detail, labels, actions, trail = [] }: PageHeaderProps) {
  const heading = useHeading(title);
  return (
    <PageSection className="bb-head">
      {trail.length > 0 && <Trail title={title} trail={trail} />}
      <Flex
        justifyContent={{ default: "justifyContentSpaceBetween" }}
        alignItems={{ default: "alignItemsCenter" }}
      >
        <Flex gap={{ default: "gapMd" }} alignItems={{ default: "alignItemsCenter" }}>
          <div ref={heading}>
            <Title headingLevel="h1" tabIndex={-1}>
              <bdi>{title}</bdi> {detail && <span className="bb-quiet">{detail}</span>}
            </Title>
          </div>
          {labels}
        </Flex>
        <Flex gap={{ default: "gapSm" }}>{actions}</Flex>
      </Flex>
    </PageSection>
  );
}
