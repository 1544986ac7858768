// Shows the sign-in page or, after sign-in, the console with its live feed.
import { Button } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { type Me, Problem, api, unwrap } from "./api/client";
import { openFeed, parsePosition } from "./api/feed";
import { router } from "./router";
import { t, useLanguage } from "./text/text";
import { LoadingState, StateBlock } from "./ui/states";
import { Login } from "./account/Login";
import { NEW_PASSWORD_PATH, NewPassword } from "./account/NewPassword";
import { ProviderReturn, RETURN_PATH } from "./account/ProviderReturn";
import { AccountContext } from "./model/account";

const RETRY_MS = 3_000;

const readMe = async (): Promise<Me | null> => {
  try {
    return unwrap(await api.GET("/api/v1/me"));
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 401) return null;
    throw problem;
  }
};

/** The console of a user. After the end of the sign-in it stays behind the sign-in form. */
function Console({ user, signedOut }: { user: Me; signedOut: boolean }) {
  const cache = useQueryClient();
  const language = useLanguage();
  const [live, setLive] = useState(false);
  const [lastLive, setLastLive] = useState<string | null>(null);
  const position = useRef(parsePosition(user.feed_position));
  useEffect(() => {
    if (signedOut) return;
    const onState = (connected: boolean) => {
      setLive((before) => {
        if (before && !connected) setLastLive(new Date().toISOString());
        return connected;
      });
      // Queries that failed during an outage run again.
      if (connected) void cache.invalidateQueries({ predicate: (q) => q.state.status === "error" });
    };
    const feed = openFeed(cache, position.current, onState, () => cache.setQueryData(["me"], null));
    return () => feed.close();
  }, [signedOut, cache]);
  return (
    <>
      <div className="bb-console" inert={signedOut} hidden={signedOut} key={language}>
        <AccountContext value={{ me: user, live, lastLive }}>
          <RouterProvider router={router} />
        </AccountContext>
      </div>
      {signedOut && <Login expected={user.username} />}
    </>
  );
}

export function AuthGate() {
  const cache = useQueryClient();
  useLanguage();
  const me = useQuery({
    queryKey: ["me"],
    queryFn: readMe,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
    refetchInterval: (q) => (q.state.status === "error" ? RETRY_MS : false),
  });
  const [last, setLast] = useState<Me | null>(null);
  const [returning, setReturning] = useState(location.pathname === RETURN_PATH);
  const isBarred = me.data?.must_change_password || me.data?.must_set_up_second_factor;
  const user = isBarred ? null : (me.data ?? null);

  useEffect(() => {
    const end = () => cache.getQueryData(["me"]) && cache.setQueryData(["me"], null);
    window.addEventListener("busbar-signed-out", end);
    return () => window.removeEventListener("busbar-signed-out", end);
  }, [cache]);
  if (user && user !== last) setLast(user);

  // Signing out on purpose forgets the user, and with it everything the console has read.
  useEffect(() => {
    const forget = () => setLast(null);
    window.addEventListener("busbar-sign-out", forget);
    return () => window.removeEventListener("busbar-sign-out", forget);
  }, []);

  if (location.pathname === NEW_PASSWORD_PATH) return <NewPassword />;
  if (returning) return <ProviderReturn done={() => setReturning(false)} />;
  const shown = user ?? last;
  if (shown) return <Console user={shown} signedOut={!user} key={shown.id} />;
  if (me.isPending) return <LoadingState />;
  if (me.error)
    return (
      <main className="bb-login">
        <StateBlock
          status="warning"
          level="h1"
          title={t("login.waiting")}
          body={t("login.waitingBody", { reason: me.error.message })}
          action={
            <Button variant="secondary" onClick={() => void me.refetch()}>
              {t("state.retry")}
            </Button>
          }
        />
      </main>
    );
  return <Login />;
}
