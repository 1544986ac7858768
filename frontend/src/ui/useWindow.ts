// Window of a long list: only rows near the visible part are rendered. All rows are equally high.
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

const MARGIN_ROWS = 10;

export interface Window {
  container: RefObject<HTMLDivElement | null>;
  start: number;
  end: number;
  /** Scroll as little as needed to show a row. */
  reveal: (index: number) => void;
}

export function useWindow(count: number, rowHeight: number, headHeight = 0): Window {
  const container = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = container.current;
    if (!element) return;
    const read = () => setView({ top: element.scrollTop, height: element.clientHeight });
    read();
    element.addEventListener("scroll", read, { passive: true });
    const resized = new ResizeObserver(read);
    resized.observe(element);
    return () => {
      element.removeEventListener("scroll", read);
      resized.disconnect();
    };
  }, []);
  const reveal = useCallback(
    (index: number) => {
      const element = container.current;
      if (!element) return;
      const top = index * rowHeight;
      const bottom = top + rowHeight + headHeight;
      if (top < element.scrollTop) element.scrollTop = top;
      else if (bottom > element.scrollTop + element.clientHeight)
        element.scrollTop = bottom - element.clientHeight;
    },
    [rowHeight, headHeight],
  );
  const start = Math.max(0, Math.floor(view.top / rowHeight) - MARGIN_ROWS);
  const end = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + MARGIN_ROWS);
  return { container, start: Math.min(start, Math.max(0, count - 1)), end, reveal };
}
