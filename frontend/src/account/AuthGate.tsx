// Shows the sign-in page or, after sign-in, the console with its live feed.
import { Bullseye, Spinner } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { type Me, Problem, api, unwrap } from "../api/client";
import { openFeed } from "../api/feed";
import { router } from "../router";
import { Login } from "./Login";
import { AccountContext } from "./account";

const readMe = async (): Promise<Me | null> => {
  try {
    return unwrap(await api.GET("/api/v1/me"));
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 401) return null;
    throw problem;
  }
};

export function AuthGate() {
  const cache = useQueryClient();
  const me = useQuery({ queryKey: ["me"], queryFn: readMe, staleTime: Number.POSITIVE_INFINITY });
  const [live, setLive] = useState(false);
  const user = me.data?.must_change_password ? null : me.data;
  const signedIn = Boolean(user);

  useEffect(() => {
    if (!signedIn) return;
    const feed = openFeed(cache, setLive, () => cache.setQueryData(["me"], null));
    return () => {
      feed.close();
      cache.removeQueries({ queryKey: ["rows"] });
    };
  }, [signedIn, cache]);

  if (me.isPending)
    return (
      <Bullseye>
        <Spinner aria-label="Loading" />
      </Bullseye>
    );
  if (!user) return <Login />;
  return (
    <AccountContext value={{ me: user, live }}>
      <RouterProvider router={router} />
    </AccountContext>
  );
}
