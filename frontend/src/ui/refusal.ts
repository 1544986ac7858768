// Messages of the appliance about the fields of a form. The pointer of an error names its field.
import { Problem } from "../api/client";
import { say } from "../text/text";
import type { Field } from "./fields";

/** Return the name of the field of an error. A pointer may go on into its value. */
const nameOf = (pointer: string) => pointer.split("/")[1] ?? "";

/** Return what is wrong with a field. */
export const messageFor = (problem: Error | null, { name }: Field): string =>
  problem instanceof Problem
    ? problem.errors
        .filter(({ pointer }) => nameOf(pointer) === name)
        .map(({ message }) => message)
        .join(" ")
    : "";

/** Returns what is wrong with a field; empty if nothing is. */
export type ErrorOf = (field: Field) => string;
export const outcome = (field: Field, errorOf: ErrorOf) => ({ field, error: errorOf(field) });

/** Return the message of a failure, with the labels of the fields in place of their names. */
export function messageOf(problem: Error, fields: readonly Field[]): string {
  if (!(problem instanceof Problem) || problem.errors.length === 0) return problem.message;
  return problem.errors
    .map(({ pointer, message }) => {
      const field = fields.find(({ name }) => name === nameOf(pointer));
      return `${field ? say(field.label) : pointer.slice(1)}: ${message}`;
    })
    .join(" ");
}
