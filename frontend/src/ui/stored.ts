// State that this browser remembers.
import { useState } from "react";

export function useStored<T>(key: string, initial: T): [T, (value: T) => void] {
  const name = `busbar.${key}`;
  const [value, setValue] = useState<T>(() => {
    const stored = localStorage.getItem(name);
    try {
      return stored === null ? initial : (JSON.parse(stored) as T);
    } catch {
      return initial;
    }
  });
  const store = (next: T) => {
    localStorage.setItem(name, JSON.stringify(next));
    setValue(next);
  };
  return [value, store];
}
