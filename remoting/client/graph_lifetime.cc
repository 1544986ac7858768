#include "client/graph_lifetime.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace busbar::client {

bool Launches::done() const {
  return std::ranges::all_of(ends_, [](auto& entry) {
    return entry.second.stream->progress.reached(entry.second.position);
  });
}

void Launches::wait() const {
  for (auto& [stream, end] : ends_) wait_for(end.stream.get(), end.position);
}

void release_after(UserObjects objects, Launches launches) {
  if (objects.empty() || launches.done()) return release_user_objects(objects);
  std::thread([objects = std::move(objects), launches = std::move(launches)] {
    launches.wait();
    release_user_objects(objects);
  }).detach();
}

}  // namespace busbar::client
