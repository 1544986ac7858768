import "@patternfly/react-core/dist/styles/base.css";
import "./console.css";
import "./frame.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { AuthGate } from "./AuthGate";
import { applyTheme, storedTheme } from "./account/theme";
import { cache } from "./api/cache";
import { PaneBoundary } from "./ui/PaneBoundary";

applyTheme(storedTheme());

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={cache}>
      <PaneBoundary>
        <AuthGate />
      </PaneBoundary>
    </QueryClientProvider>
  </StrictMode>,
);
