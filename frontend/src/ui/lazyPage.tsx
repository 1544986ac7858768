// Pages in chunks of their own. A chunk that could not be fetched is fetched again.
import { Button } from "@patternfly/react-core";
import { type ComponentType, type ReactNode, useCallback, useEffect, useState } from "react";
import { t } from "../text/text";
import { LoadingState, StateBlock } from "./states";

const RETRY_MS = 3_000;
type Module = { default: ComponentType };

/** Fetch a module under a new address: browsers remember the failure of the old one. */
async function fetchAgain(failure: Error, attempt: number): Promise<Module> {
  const address = /https?:\/\/\S+\.js/.exec(failure.message)?.[0];
  if (!address) throw failure;
  return (await import(/* @vite-ignore */ `${address}?attempt=${attempt}`)) as Module;
}

/** Reload the page if the appliance answers and serves another version of the console. */
async function reloadForNewVersion() {
  const response = await fetch("/", { cache: "no-store" }).catch(() => undefined);
  if (!response?.ok) return;
  const entry = document.querySelector<HTMLScriptElement>('script[type="module"]')?.src;
  if (entry && !(await response.text()).includes(new URL(entry).pathname)) location.reload();
}

/** A page, and how to fetch its chunk. */
interface LazyModule {
  load: () => Promise<Module>;
  page?: ComponentType;
}

/** Return the page when it is fetched, the number of failures, and a function that tries again. */
function usePage(lazy: LazyModule) {
  const [Page, setPage] = useState<ComponentType | undefined>(() => lazy.page);
  const [failures, setFailures] = useState(0);
  const [failure, setFailure] = useState<Error>();

  const attempt = useCallback(() => {
    const { load } = lazy;
    const loading = failure ? load().catch(() => fetchAgain(failure, failures)) : load();
    loading.then(
      (module) => {
        lazy.page = module.default;
        setPage(() => module.default);
      },
      (cause: Error) => {
        setFailure((first) => first ?? cause);
        setFailures((n) => n + 1);
        void reloadForNewVersion();
      },
    );
  }, [lazy, failure, failures]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: one attempt per failure
  useEffect(() => {
    if (lazy.page) return;
    const timer = window.setTimeout(attempt, failures ? RETRY_MS : 0);
    return () => window.clearTimeout(timer);
  }, [failures]);
  return { Page, failures, attempt };
}

function FailedPage({ retry }: { retry: () => void }) {
  return (
    <StateBlock
      status="danger"
      title={t("state.chunk")}
      body={t("state.chunkBody")}
      action={
        <Button variant="secondary" onClick={retry}>
          {t("state.retry")}
        </Button>
      }
    />
  );
}

export function lazyPage(load: () => Promise<Module>): () => ReactNode {
  const lazy: LazyModule = { load };
  return function LazyPage() {
    const { Page, failures, attempt } = usePage(lazy);
    if (Page) return <Page />;
    return failures ? <FailedPage retry={attempt} /> : <LoadingState />;
  };
}
