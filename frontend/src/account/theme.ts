// Colour theme: dark, light or that of the system. Stored in this browser.
export type Theme = "system" | "light" | "dark";
const STORAGE_KEY = "busbar.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

export const storedTheme = (): Theme => {
  const stored = localStorage.getItem(STORAGE_KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
};
export const isDark = (theme: Theme) => theme === "dark" || (theme === "system" && system.matches);

export function applyTheme(theme: Theme) {
  if (theme === "system") localStorage.removeItem(STORAGE_KEY);
  else localStorage.setItem(STORAGE_KEY, theme);
  document.documentElement.classList.toggle("pf-v6-theme-dark", isDark(theme));
  window.dispatchEvent(new window.Event("busbar-theme"));
}
system.addEventListener("change", () => applyTheme(storedTheme()));
