// Display formats for sizes, percentages and times.
export const gib = (bytes: number) =>
  `${(bytes / 2 ** 30).toFixed(bytes < 10 * 2 ** 30 ? 1 : 0)} GiB`;
export const percent = (value: number | null | undefined) =>
  value == null ? "–" : `${Math.round(value)} %`;
export const time = (iso: string | null | undefined) =>
  iso
    ? new Date(iso).toLocaleTimeString([], {
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
        hour12: false,
      })
    : "";
export const dateTime = (iso: string | null | undefined) =>
  iso
    ? new Date(iso).toLocaleString([], {
        dateStyle: "medium",
        timeStyle: "medium",
        hour12: false,
      } as Intl.DateTimeFormatOptions)
    : "–";
export const humanize = (code: string) => code.replaceAll(/[._]/g, " ");
