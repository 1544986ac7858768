// Which named things match the words of a query, and in which order.

export interface Named {
  id: string;
  label: string;
  /** In lower case: the name and what else is known. */
  haystack: string;
}

/** Shorter words are parts of most ids. */
const SHORTEST_ID_PART = 6;

/** Return how well a thing matches: its name counts more than what else is known of it. */
function rank(label: string, words: string[]): number {
  const [first = ""] = words;
  if (label.includes(words.join(" "))) return label.startsWith(first) ? 4 : 3;
  if (words.every((w) => label.includes(w))) return 2;
  return label.startsWith(first) ? 1 : 0;
}

/** Return what contains all words, or has an id with the only word; better matches come first. */
export function bestFirst<T extends Named>(words: string[], things: T[]): T[] {
  const isId = (id: string) =>
    words.length === 1 && words.every((w) => w.length >= SHORTEST_ID_PART && id.includes(w));
  return things
    .filter((x) => words.every((w) => x.haystack.includes(w)) || isId(x.id))
    .map((thing) => ({ thing, rank: rank(thing.label.toLowerCase(), words) }))
    .sort((a, b) => b.rank - a.rank)
    .map((x) => x.thing);
}
