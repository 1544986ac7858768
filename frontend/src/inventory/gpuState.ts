// State of a GPU in words.
import type { Gpu } from "../api/client";
import { size } from "../model/format";
import { t } from "../text/text";

/** Return whether nothing is placed on the GPU until an operator acts. */
export const isHeld = (gpu: Gpu) => gpu.held || Boolean(gpu.duplicate_of);

/** Return whether the GPU counts as capacity: its node lists it, and no other node has the claim. */
export const isCapacity = (gpu: Gpu) => gpu.present !== false && !gpu.duplicate_of;

/** Return the memory that each CUDA context takes, if it takes any and is known. */
export const contextText = (gpu: Gpu): string =>
  gpu.context_bytes ? size(gpu.context_bytes) : "–";

/** Return what is wrong with the GPU in one word, or an empty text. */
export function gpuTrouble(gpu: Gpu): string {
  if (gpu.present === false) return t("gpu.missing");
  return isHeld(gpu) ? t("gpu.held") : "";
}
