// Display formats for sizes, percentages, numbers and times.
import { locale, t } from "../text/text";

const KIB = 1024;
/** Return a size with its unit: tenths below 10, none above; 0 B stays 0 B. */
export function gib(bytes: number): string {
  const value = bytes / 2 ** 30;
  return `${number(value, value < 10 ? 1 : 0)} GiB`;
}
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let [value, unit] = [bytes, 0];
  while (value >= KIB && unit < units.length - 1) [value, unit] = [value / KIB, unit + 1];
  return `${number(value, unit === 0 || value >= 10 ? 0 : 1)} ${units[unit]}`;
}
export const number = (value: number, digits = 0): string =>
  value.toLocaleString(locale(), { minimumFractionDigits: digits, maximumFractionDigits: digits });
/** Return a difference, with its sign. */
export const signed = (value: number, digits: number): string =>
  value.toLocaleString(locale(), {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    signDisplay: "exceptZero",
  });
/** Return a number of GPUs, always with two decimals unless it is whole. */
export const gpuCount = (value: number): string =>
  value.toLocaleString(locale(), { maximumFractionDigits: 2 });
export const percent = (value: number | null | undefined) =>
  value == null ? "–" : `${Math.round(value)} %`;
export const time = (iso: string | null | undefined) =>
  iso
    ? new Date(iso).toLocaleTimeString(locale(), {
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
        hour12: false,
      })
    : "";
export const dateTime = (iso: string | null | undefined) =>
  iso
    ? new Date(iso).toLocaleString(locale(), {
        dateStyle: "medium",
        timeStyle: "medium",
        hour12: false,
      } as Intl.DateTimeFormatOptions)
    : "–";
export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

const STEPS: [seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"],
];
/** Return the distance of a time from now, such as "2 min ago". */
export function ago(iso: string | null | undefined, now = Date.now()): string {
  if (!iso) return t("common.never");
  const seconds = (new Date(iso).getTime() - now) / 1000;
  const [step, unit] = STEPS.find(([s]) => Math.abs(seconds) >= s) ?? [1, "second" as const];
  return new Intl.RelativeTimeFormat(locale(), { style: "short", numeric: "auto" }).format(
    Math.round(seconds / step),
    unit,
  );
}
export const humanize = (code: string) => code.replaceAll(/[._]/g, " ");
