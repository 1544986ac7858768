import "@patternfly/react-core/dist/styles/base.css";
import "./console.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { AuthGate } from "./account/AuthGate";
import { applyTheme, storedTheme } from "./account/theme";

applyTheme(storedTheme());
const cache = new QueryClient({
  defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: false } },
});

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={cache}>
      <AuthGate />
    </QueryClientProvider>
  </StrictMode>,
);
