// Actions of objects: kebab, right-click menu and bulk bar. The server says which are allowed.
import {
  Dropdown,
  DropdownItem,
  DropdownList,
  Menu,
  MenuContent,
  MenuList,
  MenuItem,
  MenuToggle,
  Spinner,
} from "@patternfly/react-core";
import EllipsisVIcon from "@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon";
import { type MouseEvent, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Actionable } from "../model/kinds";
import { t } from "../text/text";
import { useActions } from "./queries";
import { perform, specsOf } from "./registry";
import type { Spec } from "./spec";

interface Offer {
  spec: Spec;
  reason: string;
}

/** Actions that all targets have, in the registry's order; the first refusal is the reason. */
function useOffers(targets: Actionable[], isEnabled: boolean): Offer[] | undefined {
  const answers = useActions(targets, isEnabled);
  if (!answers) return undefined;
  return specsOf(targets[0]?.kind).flatMap((spec) => {
    if (targets.length > 1 && !spec.bulk) return [];
    if (spec.state && targets.some((x) => x.state !== spec.state)) return [];
    const found = targets.map((x) =>
      answers.get(`${x.kind}/${x.id}`)?.find((a) => a.name === spec.name),
    );
    if (!found.every(Boolean)) return [];
    return [{ spec, reason: found.find((a) => a && !a.allowed)?.reason ?? "" }];
  });
}

function Items({
  targets,
  offers,
  as: Item,
  done,
}: {
  targets: Actionable[];
  offers: Offer[];
  as: typeof DropdownItem | typeof MenuItem;
  done?: () => void;
}) {
  if (offers.length === 0) return <Item isDisabled>{t("action.none")}</Item>;
  return offers.map(({ spec, reason }) => (
    <Item
      key={spec.label}
      isAriaDisabled={Boolean(reason)}
      isDanger={spec.danger}
      description={reason || undefined}
      onClick={() => {
        if (reason) return;
        void perform(spec, targets);
        done?.();
      }}
    >
      {t(spec.label)}
    </Item>
  ));
}

const Loading = () => <Spinner size="sm" aria-label={t("state.loading")} />;

interface ActionMenuProps {
  targets: Actionable[];
  text?: string;
  done?: () => void;
}

/**
 * Kebab of one row or page, or the button of the bulk bar. Its items are read when it is pressed,
 * and it opens with all of them: a menu that grows moves under the pointer.
 */
export function ActionMenu({ targets, text, done }: ActionMenuProps) {
  const [isPressed, setPressed] = useState(false);
  const offers = useOffers(targets, isPressed);
  const isOpen = isPressed && Boolean(offers);
  const icon = isPressed && !offers ? <Loading /> : text ? undefined : <EllipsisVIcon />;
  const name = targets.length === 1 ? (targets[0]?.name ?? "") : "";
  return (
    <Dropdown
      isOpen={isOpen}
      onOpenChange={setPressed}
      onSelect={() => setPressed(false)}
      popperProps={{ position: "end" }}
      toggle={(ref) => (
        <MenuToggle
          ref={ref}
          variant={text ? "default" : "plain"}
          aria-label={text ?? t("common.actionsOf", { name })}
          isExpanded={isOpen}
          onClick={() => setPressed(!isPressed)}
          {...(icon ? { icon } : {})}
        >
          {text}
        </MenuToggle>
      )}
    >
      <DropdownList>
        {isOpen && offers && (
          <Items {...{ targets, offers }} as={DropdownItem} {...(done ? { done } : {})} />
        )}
      </DropdownList>
    </Dropdown>
  );
}

interface Place {
  target: Actionable;
  x: number;
  y: number;
}
let place: Place | null = null;
const listeners = new Set<() => void>();
function publish(next: Place | null) {
  place = next;
  for (const notify of listeners) notify();
}
const subscribe = (notify: () => void) => {
  listeners.add(notify);
  return () => listeners.delete(notify);
};

/** Open the actions of a target at the pointer. */
export function openContextMenu(event: MouseEvent, target: Actionable) {
  event.preventDefault();
  publish({ target, x: event.clientX, y: event.clientY });
}

function ContextItems({ target }: { target: Actionable }) {
  const offers = useOffers([target], true);
  if (!offers)
    return (
      <MenuItem isDisabled>
        <Loading />
      </MenuItem>
    );
  return <Items targets={[target]} offers={offers} as={MenuItem} done={() => publish(null)} />;
}

export function ContextMenu() {
  const shown = useSyncExternalStore(subscribe, () => place);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!shown) return;
    const before = document.activeElement as HTMLElement | null;
    const close = (e: Event) => {
      if (!box.current?.contains(e.target as Node)) publish(null);
    };
    const onKey = (e: KeyboardEvent) => e.key === "Escape" && publish(null);
    window.addEventListener("pointerdown", close);
    window.addEventListener("keydown", onKey);
    box.current?.focus();
    return () => {
      window.removeEventListener("pointerdown", close);
      window.removeEventListener("keydown", onKey);
      before?.focus();
    };
  }, [shown]);
  if (!shown) return null;
  const style = {
    left: Math.min(shown.x, window.innerWidth - 300),
    top: Math.min(shown.y, window.innerHeight - 320),
  };
  return (
    <div ref={box} className="bb-context" style={style} tabIndex={-1}>
      <Menu aria-label={t("common.actionsOf", { name: shown.target.name })} isPlain>
        <MenuContent>
          <MenuList>
            <ContextItems target={shown.target} />
          </MenuList>
        </MenuContent>
      </Menu>
    </div>
  );
}
