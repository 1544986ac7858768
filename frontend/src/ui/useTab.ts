// The tab of a page, in its URL: it survives reloads and links.
import { useNavigate, useSearch } from "@tanstack/react-router";

export function useTab<T extends string>(tabs: readonly T[]): [T, (tab: T) => void] {
  const { tab } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const current = tabs.find((x) => x === tab) ?? (tabs[0] as T);
  return [current, (next) => void navigate({ to: ".", search: { tab: next }, replace: true })];
}
