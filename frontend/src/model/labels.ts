// Labels as users write them.

/** Return labels as lines of KEY=VALUE. */
export const labelLines = (labels: unknown): string =>
  Object.entries((labels ?? {}) as Record<string, string>)
    .map(([k, v]) => `${k}=${v}`)
    .join("\n");

/** Read lines of KEY=VALUE. */
export function labelsOf(lines: string | undefined): Record<string, string> {
  const pairs = (lines ?? "")
    .split("\n")
    .map((line) => [line, line.indexOf("=")] as const)
    .filter(([, at]) => at > 0)
    .map(([line, at]) => [line.slice(0, at).trim(), line.slice(at + 1).trim()] as const);
  return Object.fromEntries(pairs); // keys like __proto__ would be lost by assignment
}
