import { Link } from "@tanstack/react-router";
import { openContextMenu } from "../actions/ActionMenu";
import type { Gpu } from "../api/client";
import { gib } from "../model/format";
import { DuplicateLine } from "./DuplicateGpu";
import { PartitionBar } from "./PartitionBar";

export function GpuRow({ gpu }: { gpu: Gpu }) {
  const name = `${gpu.node} GPU ${gpu.index}`;
  return (
    <div className="bb-gpurow">
      <Link
        to={`/gpus/${gpu.id}`}
        className="bb-gpurow__name"
        onContextMenu={(e) => openContextMenu(e, { kind: "gpus", id: gpu.id, name })}
      >
        GPU {gpu.index}
        <span className="bb-quiet">
          {gpu.model}, {gib(gpu.memory_bytes)}
        </span>
        <DuplicateLine gpu={gpu} />
      </Link>
      <PartitionBar gpu={gpu} />
    </div>
  );
}
