// Confirmation of what destroys: it names what will be lost and offers the gentler way.
import { Alert, Button, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import { type ReactNode, useState, useSyncExternalStore } from "react";
import { t } from "../text/text";

export interface Question {
  title: string;
  /** What will be lost. */
  body: ReactNode;
  /** Nothing is lost. */
  isHarmless?: boolean;
  /** Verb of the confirming button. */
  verb: string;
  run: () => Promise<unknown>;
  gentler?: { verb: string; run: () => Promise<unknown> };
}
let question: Question | null = null;
const listeners = new Set<() => void>();
function publish(next: Question | null) {
  question = next;
  for (const notify of listeners) notify();
}
export const ask = (next: Question) => publish(next);

interface ButtonsProps {
  asked: Question;
  busy: boolean;
  answer: (run: () => Promise<unknown>) => void;
}

function Buttons({ asked, busy, answer }: ButtonsProps) {
  const { gentler } = asked;
  return (
    <>
      <Button
        variant={asked.isHarmless ? "primary" : "danger"}
        isLoading={busy}
        isDisabled={busy}
        onClick={() => answer(asked.run)}
      >
        {asked.verb}
      </Button>
      {gentler && (
        <Button variant="secondary" isDisabled={busy} onClick={() => answer(gentler.run)}>
          {gentler.verb}
        </Button>
      )}
      <Button variant="link" onClick={() => publish(null)}>
        {t("common.cancel")}
      </Button>
    </>
  );
}

function Asked({ asked }: { asked: Question }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const answer = async (run: () => Promise<unknown>) => {
    setBusy(true);
    setError("");
    try {
      await run();
      publish(null);
    } catch (problem) {
      setError((problem as Error).message);
    }
    setBusy(false);
  };
  return (
    <Modal isOpen variant="small" onClose={() => publish(null)} aria-labelledby="confirm-title">
      <ModalHeader
        title={asked.title}
        {...(asked.isHarmless ? {} : { titleIconVariant: "warning" as const })}
        labelId="confirm-title"
      />
      <ModalBody>
        <div className="bb-stack">
          {error && <Alert variant="danger" isInline title={error} component="p" />}
          {asked.body}
        </div>
      </ModalBody>
      <ModalFooter>
        <Buttons {...{ asked, busy }} answer={(run) => void answer(run)} />
      </ModalFooter>
    </Modal>
  );
}

const subscribe = (notify: () => void) => {
  listeners.add(notify);
  return () => listeners.delete(notify);
};
export function ConfirmDialog() {
  const asked = useSyncExternalStore(subscribe, () => question);
  return asked ? <Asked asked={asked} key={asked.title} /> : null;
}
