// Steps of a panel that changes how the user signs in.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Problem } from "../api/client";

/** The step of a panel that asks for another sign-in, and then does what it was about to do. */
export interface ProveStep {
  name: "prove";
  next: () => Promise<void>;
}

/**
 * Return the current step, and how to change it. `run` makes a change, after another sign-in if the
 * appliance asks for one. `show` reads again what a change affects.
 * `proved` continues after that sign-in.
 */
export function useSteps<S extends { name: string }>(first: S, queries: readonly string[]) {
  const cache = useQueryClient();
  const [step, setStep] = useState<S | ProveStep>(first);
  const [error, setError] = useState("");
  const show = (next: S) => {
    setStep(next);
    for (const key of queries) void cache.invalidateQueries({ queryKey: [key] });
  };
  const run = async (send: () => Promise<void>): Promise<void> => {
    setError("");
    try {
      await send();
    } catch (problem) {
      if (problem instanceof Problem && problem.code === "fresh_sign_in_required")
        return setStep({ name: "prove", next: () => run(send) });
      setStep((now) => (now.name === "prove" ? first : now)); // codes that are shown once stay
      setError((problem as Error).message);
    }
  };
  const proved = () => {
    setStep(first);
    if (step.name === "prove") void (step as ProveStep).next();
  };
  return { step, setStep, show, run, proved, error };
}
