// Command lines to paste into a POSIX shell.

/** Quote a word. */
export const quoted = (text: string) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

type Option = string | boolean | readonly string[] | undefined;

/**
 * Return a command with its options: a list repeats its option, true stands without a value, and
 * what is empty or false is left out.
 */
export function shellLine(words: readonly string[], options: Record<string, Option> = {}): string {
  const all = Object.entries(options).flatMap(([name, value]) =>
    [value].flat().flatMap((v) => (v === true ? [`--${name}`] : v ? [`--${name}`, v] : [])),
  );
  return [...words, ...all].map((word) => quoted(String(word))).join(" ");
}
