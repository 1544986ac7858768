// Export of what a page shows as a CSV file.

/** Starts of texts that spreadsheets run as a formula, some after white space. */
const FORMULA = /^\s*[=+\-@]|^[\t\r\n]/;

/** Quote a field, and disarm one that a spreadsheet would run. */
const field = (value: string | number) => {
  const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export const csvText = (rows: readonly (readonly (string | number)[])[]): string =>
  rows.map((row) => `${row.map(field).join(",")}\r\n`).join("");

export function downloadCsv(name: string, rows: readonly (readonly (string | number)[])[]) {
  const url = URL.createObjectURL(new Blob([`\ufeff${csvText(rows)}`], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name}.csv`;
  link.click();
  URL.revokeObjectURL(url);
}
