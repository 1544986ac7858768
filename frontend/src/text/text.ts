// Texts of the console in English and Simplified Chinese. One catalogue holds both languages.
import { useSyncExternalStore } from "react";
import { catalogue } from "./catalogue";

export type Language = "en" | "zh";
export type Key = keyof typeof catalogue;
type CountedKey = {
  [K in Key]: K extends `${infer Base}.one` ? Base : never;
}[Key];
export type Values = Record<string, string | number>;

export const LANGUAGES: Record<Language, string> = { en: "English", zh: "简体中文" };
const STORAGE_KEY = "busbar.language";
const listeners = new Set<() => void>();

function initial(): Language {
  const stored = localStorage.getItem(STORAGE_KEY);
  if (stored === "en" || stored === "zh") return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
let language = initial();
document.documentElement.lang = language === "zh" ? "zh-CN" : "en";

export const currentLanguage = () => language;
/** Locale of numbers and dates: that of the browser where it fits the language. */
export const locale = (): string =>
  navigator.language.toLowerCase().startsWith(language)
    ? navigator.language
    : language === "zh"
      ? "zh-CN"
      : "en-GB";

export function setLanguage(chosen: Language) {
  language = chosen;
  localStorage.setItem(STORAGE_KEY, chosen);
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
  for (const notify of listeners) notify();
}

const subscribe = (notify: () => void) => {
  listeners.add(notify);
  return () => listeners.delete(notify);
};
export const useLanguage = (): Language => useSyncExternalStore(subscribe, currentLanguage);

const fill = (text: string, values: Values) =>
  text.replaceAll(/\{(\w+)\}/g, (whole, name: string) =>
    name in values ? String(values[name]) : whole,
  );

/** Return the text of a key in the current language, with its placeholders filled. */
export function t(key: Key, values: Values = {}): string {
  return fill(catalogue[key][language === "zh" ? 1 : 0], values);
}

/** A text of the catalogue, or one that is made of several. */
export type Phrase = Key | (() => string);
export const say = (phrase: Phrase): string =>
  typeof phrase === "function" ? phrase() : t(phrase);

/** Return a text with a number in its singular or plural form. */
export function counted(key: CountedKey, count: number, values: Values = {}): string {
  const form = new Intl.PluralRules(locale()).select(count) === "one" ? "one" : "other";
  return t(`${key}.${form}` as Key, { count: count.toLocaleString(locale()), ...values });
}

/** Return the text of a code of the appliance, or `fallback` for an unknown code. */
export function coded(prefix: string, code: string, fallback: string, values: Values = {}): string {
  const key = `${prefix}.${code}`;
  return key in catalogue ? t(key as Key, values) : fallback;
}
