// @vitest-environment jsdom
import { expect, test } from "vitest";
import { catalogue } from "../text/catalogue";
import type { Field } from "../ui/fields";
import { FIELDS as DEFINITION_FIELDS } from "./definitionForm";
import { QUOTA_FIELDS } from "./listedForms";
import { POOL_FIELDS } from "./poolFields";

// Without a label the form shows the name of the field, in English only.
test.each<[string, Field[]]>([
  ["poolField", POOL_FIELDS],
  ["quota", QUOTA_FIELDS],
  ["alarmField", DEFINITION_FIELDS],
])("each field of a form has the label %s.NAME", (texts, fields) => {
  const built = fields.filter(({ label }) => typeof label !== "string");
  const keys = built.map(({ name }) => `${texts}.${name}`);
  expect(keys.filter((key) => !(key in catalogue))).toEqual([]);
});
