import type { Actionable } from "../model/kinds";
import type { Key } from "../text/text";

/** An action of the registry on objects of one kind. */
export interface Spec {
  kind: Actionable["kind"];
  /** Name of the server's action. */
  name: string;
  label: Key;
  danger?: boolean;
  /** Text of a confirmation of what can be undone. */
  confirm?: Key;
  /** Also offered for several objects. */
  bulk?: boolean;
  /** Offered only for objects in this state. */
  state?: string;
  /** Opens a dialog, if need be after it has read the object. */
  open?: (target: Actionable) => void | Promise<void>;
  /** Changes one object. */
  run?: (target: Actionable) => Promise<unknown>;
  /** Gentler way that the confirmation offers for nodes. */
  gentler?: { label: Key; run: (target: Actionable) => Promise<unknown> };
}
