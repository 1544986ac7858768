// @vitest-environment jsdom
import { afterEach, expect, test } from "vitest";
import { catalogue } from "./catalogue";
import { coded, counted, setLanguage, t } from "./text";

const placeholders = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();
/** Keys with these beginnings are built from codes of the appliance or from names. */
const BUILT =
  /^(kind|health|allocationState|taskState|task\.\w+|event\.\w+|privilege|source|loss\.text|hold|metric|chart|capacity|tree|dock|quota|quotaHelp|rotation|resize|suspension|compute_mode|enforcement|severity|alarmState|alarmStep|condition|alarmField|alarmFieldHelp|poolField|poolFieldHelp)\./;

const SOURCES = import.meta.glob<string>(["../**/*.{ts,tsx}", "!../text/**"], {
  query: "?raw",
  import: "default",
  eager: true,
});

afterEach(() => setLanguage("en"));

test("every text exists in both languages with the same placeholders", () => {
  const wrong = Object.entries(catalogue).filter(
    ([, [english, chinese]]) =>
      !english.trim() ||
      !chinese.trim() ||
      placeholders(english).join() !== placeholders(chinese).join(),
  );
  expect(wrong.map(([key]) => key)).toEqual([]);
});

test("every text is used", () => {
  const source = Object.values(SOURCES).join("\n");
  const unused = Object.keys(catalogue).filter((key) => {
    const base = key.replace(/\.(one|other)$/, "");
    return !BUILT.test(key) && !source.includes(`"${base}"`);
  });
  expect(unused).toEqual([]);
});

test("a text is filled in the chosen language", () => {
  expect(t("state.missing", { what: "GPU" })).toBe("GPU not found");
  setLanguage("zh");
  expect(t("state.missing", { what: "GPU" })).toBe("找不到GPU");
  expect(document.documentElement.lang).toBe("zh-CN");
});

test("a number chooses between singular and plural", () => {
  expect(counted("count.gpu", 1)).toBe("1 GPU");
  expect(counted("count.gpu", 2)).toBe("2 GPUs");
});

test("an unknown code falls back to the text of the appliance", () => {
  expect(coded("event", "node.ready", "x")).toBe("Node ready");
  expect(coded("event", "node.invented", "node invented")).toBe("node invented");
});
