// Check of the functions of the console: none has more than 40 lines, from its first to its last.
// Biome has such a rule, but does not count lines within JSX. `npm run lint` runs this file.
import ts from "typescript";

const MAX_LINES = 40;

/** Return the places of long functions in a file, also of those within others. */
function longFunctions(path: string): string[] {
  const file = ts.createSourceFile(path, ts.sys.readFile(path) ?? "", ts.ScriptTarget.Latest);
  const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line + 1;
  const found: string[] = [];
  const visit = (node: ts.Node) => {
    const first = lineOf(node.getStart(file));
    const lines = lineOf(node.end) - first + 1;
    if (ts.isFunctionLike(node) && lines > MAX_LINES)
      found.push(`${path}:${first}: a function has ${lines} lines: split it, at most ${MAX_LINES}`);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const exempt = ["**/*.test.ts", "**/*.test.tsx", "**/*.d.ts"];
const sources = ts.sys.readDirectory("src", [".ts", ".tsx"], exempt);
const found = sources.flatMap(longFunctions);
for (const place of found) ts.sys.write(`${place}\n`);
ts.sys.exit(found.length > 0 || sources.length === 0 ? 1 : 0);
