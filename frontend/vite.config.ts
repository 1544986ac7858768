import react from "@vitejs/plugin-react";
import { dropUnusedStyles } from "./src/build/dropUnusedStyles.ts";
import { defineConfig } from "vitest/config";

declare const process: { env: Record<string, string | undefined> };

// Set by `make dev` (deploy/dev.py); certificate and key are PEM texts. Without them the console
// needs ./run on port 8443.
const {
  BUSBAR_DEV_APPLIANCE: appliance = "https://127.0.0.1:8443",
  BUSBAR_DEV_CERTIFICATE: certificate,
  BUSBAR_DEV_KEY: key,
  BUSBAR_DEV_PORT: port = "5173",
} = process.env;

export default defineConfig({
  plugins: [react(), dropUnusedStyles()],
  build: { assetsInlineLimit: 0, chunkSizeWarningLimit: 900 },
  test: {
    isolate: false,
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/build/testPatience.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
  server: {
    host: "127.0.0.1",
    port: Number(port),
    strictPort: true,
    // The Host header is forwarded as it is: the appliance compares it with the Origin header.
    proxy: {
      "/api": { target: appliance, secure: false, ws: true },
      "/docs": { target: appliance, secure: false },
      "/static": { target: appliance, secure: false },
    },
    ...(certificate && key ? { https: { cert: certificate, key } } : {}),
  },
});
