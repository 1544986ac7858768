#include "softgpu/driver/graph_launch.h"

#include <mutex>

#include "softgpu/device/clock.h"
#include "softgpu/device/conditions.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/handles.h"

namespace softgpu {

GraphLaunch::GraphLaunch(GraphExec* e) {
  std::lock_guard lock(e->mutex);
  objects = e->objects;
  for (auto& c : e->conditions)
    if (c.assigned)
      runs.push_back([c] {
        set_condition(c.handle, c.value);
        return CUDA_SUCCESS;
      });
  for (auto& step : e->steps)
    if (step.enabled) add(step);
}

void GraphLaunch::add(const GraphExec::Step& step) {
  if (step.run) runs.push_back(step.run);
  auto* event = (EventState*)step.params.event;
  if (!event || !is_live(event)) return;
  if (step.params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    recorded.push_back(event);
    runs.push_back([stamp = stamp] {
      *stamp = now();
      return CUDA_SUCCESS;
    });
    return;
  }
  std::lock_guard lock(event->context->mutex);
  if (event->recorded) dependencies.push_back({event->stream, event->position});
}

}  // namespace softgpu
