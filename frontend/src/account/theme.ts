// Dark, light, or as the system has it; kept in this browser.
export type Theme = "system" | "light" | "dark";
const KEY = "busbar.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

export const storedTheme = (): Theme => {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
};
export const isDark = (theme: Theme) => theme === "dark" || (theme === "system" && system.matches);

export function applyTheme(theme: Theme) {
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  document.documentElement.classList.toggle("pf-v6-theme-dark", isDark(theme));
  window.dispatchEvent(new window.Event("busbar-theme"));
}
system.addEventListener("change", () => applyTheme(storedTheme()));
