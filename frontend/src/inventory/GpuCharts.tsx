import { Card, CardBody, CardTitle, Skeleton } from "@patternfly/react-core";
import { Suspense, lazy, useEffect } from "react";
import type { Gpu } from "../api/client";
import { watch } from "../api/samples";

const LiveChart = lazy(() => import("./LiveChart"));
const GIB = 2 ** 30;

export function GpuCharts({ gpu }: { gpu: Gpu }) {
  useEffect(() => watch([gpu.id]), [gpu.id]);
  return (
    <Card>
      <CardTitle component="h2">Live metrics, last 5 minutes</CardTitle>
      <CardBody>
        <Suspense fallback={<Skeleton height="200px" screenreaderText="Loading the charts" />}>
          <div className="bb-charts">
            <LiveChart
              gpuId={gpu.id}
              reading={1}
              label="Utilisation"
              tone="--bb-copper"
              max={100}
              unit="%"
            />
            <LiveChart
              gpuId={gpu.id}
              reading={2}
              label="Memory in use"
              tone="--bb-teal"
              max={gpu.memory_bytes / GIB}
              scale={GIB}
              unit="GiB"
            />
          </div>
        </Suspense>
      </CardBody>
    </Card>
  );
}
