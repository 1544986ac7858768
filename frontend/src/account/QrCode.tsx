// A QR code, from rows of 0 and 1. It stays dark on light in both themes: scanners need that.
import { t } from "../text/text";

const QUIET_ZONE = 4;

export function QrCode({ rows }: { rows: readonly string[] }) {
  const size = rows.length + 2 * QUIET_ZONE;
  const path = rows
    .flatMap((row, y) =>
      [...row].flatMap((module, x) =>
        module === "1" ? [`M${x + QUIET_ZONE} ${y + QUIET_ZONE}h1v1h-1z`] : [],
      ),
    )
    .join("");
  return (
    <svg
      className="bb-qr"
      role="img"
      aria-label={t("factor.qr")}
      viewBox={`0 0 ${size} ${size}`}
      shapeRendering="crispEdges"
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
