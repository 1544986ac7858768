// Shows the sign-in page or, after sign-in, the console with its live feed.
import { Button } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
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

function useOnWindow(event: string, act: () => void) {
  useEffect(() => {
    window.addEventListener(event, act);
    return () => window.removeEventListener(event, act);
  }, [event, act]);
}

/** The user who is signed in, and who was before; these are null if there is none. */
function useUser() {
  const cache = useQueryClient();
  const me = useQuery({
    queryKey: ["me"],
    queryFn: readMe,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
    refetchInterval: (q) => (q.state.status === "error" ? RETRY_MS : false),
  });
  const [last, setLast] = useState<Me | null>(null);
  const isBarred = me.data?.must_change_password || me.data?.must_set_up_second_factor;
  const user = isBarred ? null : (me.data ?? null);
  const end = useCallback(() => {
    if (cache.getQueryData(["me"])) cache.setQueryData(["me"], null);
  }, [cache]);
  useOnWindow("busbar-signed-out", end);
  if (user && user !== last) setLast(user);
  // Signing out on purpose forgets the user, and with it everything the console has read.
  const forget = useCallback(() => setLast(null), []);
  useOnWindow("busbar-sign-out", forget);
  return { me, user, last };
}

function Waiting({ reason, retry }: { reason: string; retry: () => void }) {
  return (
    <main className="bb-login">
      <StateBlock
        status="warning"
        level="h1"
        title={t("login.waiting")}
        body={t("login.waitingBody", { reason })}
        action={
          <Button variant="secondary" onClick={retry}>
            {t("state.retry")}
          </Button>
        }
      />
    </main>
  );
}

export function AuthGate() {
  useLanguage();
  const { me, user, last } = useUser();
  const [returning, setReturning] = useState(location.pathname === RETURN_PATH);
  if (location.pathname === NEW_PASSWORD_PATH) return <NewPassword />;
  if (returning) return <ProviderReturn done={() => setReturning(false)} />;
  const shown = user ?? last;
  if (shown) return <Console user={shown} signedOut={!user} key={shown.id} />;
  if (me.isPending) return <LoadingState />;
  if (me.error) return <Waiting reason={me.error.message} retry={() => void me.refetch()} />;
  return <Login />;
}
