#include "client/graph_model.h"

#include <unordered_map>

#include "client/session.h"

namespace busbar::client {

namespace {
struct Models {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<GraphModel>> by_handle;
};
Models& models() {
  static auto* m = new Models;
  return *m;
}

std::shared_ptr<GraphModel> find_or_create(const void* handle) {
  std::lock_guard lock(models().mutex);
  auto& m = models().by_handle[handle];
  if (!m) m = std::make_shared<GraphModel>();
  return m;
}

// Removes the models of the bodies of conditional nodes.
void remove_bodies(const GraphModel& model) {
  for (auto& c : model.conditionals)
    for (CUgraph body : c->bodies) {
      std::unique_lock lock(models().mutex);
      auto entry = models().by_handle.extract(body);
      lock.unlock();
      if (entry) remove_bodies(*entry.mapped());
    }
}

void merge_bodies(GraphModel& to, const std::vector<std::shared_ptr<Conditional>>& conditionals) {
  for (auto& c : conditionals)
    for (CUgraph body : c->bodies) {
      auto from = model_of(body);
      std::unique_lock lock(from->mutex);
      auto copies = from->copies;
      auto inner = from->conditionals;
      lock.unlock();
      for (auto& copy : copies) {
        copy.conditional = true;
        to.copies.push_back(copy);
      }
      merge_bodies(to, inner);
    }
}
}  // namespace

std::shared_ptr<GraphModel> model_of(CUgraph g) {
  return find_or_create(g);
}

std::shared_ptr<GraphModel> model_of(CUgraphExec e) {
  return find_or_create(e);
}

std::shared_ptr<GraphModel> model_of_node(CUgraphNode n) {
  return model_of((CUgraph)session()->objects.owner(ObjectKind::node, (uint64_t)n));
}

void set_model(CUgraph g, std::shared_ptr<GraphModel> model) {
  std::lock_guard lock(models().mutex);
  models().by_handle[g] = std::move(model);
}

void merge_model(GraphModel& to, GraphModel& from, bool replace) {
  if (&to == &from) return;
  std::scoped_lock lock(to.mutex, from.mutex);
  if (replace) {
    to.copies.clear();
    to.events.clear();
  }
  to.copies.insert(to.copies.end(), from.copies.begin(), from.copies.end());
  to.events.insert(to.events.end(), from.events.begin(), from.events.end());
  merge_bodies(to, from.conditionals);
}

RemovedGraph::RemovedGraph(const void* handle)
    : handle_(handle), objects_(remove_user_objects(handle)) {
  std::lock_guard lock(models().mutex);
  auto entry = models().by_handle.extract(handle);
  if (entry) model_ = std::move(entry.mapped());
}

CUresult RemovedGraph::finish(CUresult result) {
  if (!result) {
    release_user_objects(objects_);
    if (model_) remove_bodies(*model_);
    return result;
  }
  restore_user_objects(handle_, std::move(objects_));
  std::lock_guard lock(models().mutex);
  if (model_) models().by_handle[handle_] = std::move(model_);
  return result;
}

}  // namespace busbar::client
