#include "client/graph_model.h"

#include <unordered_map>
#include <utility>

#include "client/session.h"
#include "mutex.h"

namespace busbar::client {

namespace {
struct Models {
  Mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<GraphModel>> by_handle GUARDED_BY(mutex);
};
Models& models() {
  static auto* m = new Models;
  return *m;
}

std::shared_ptr<GraphModel> find_or_create(const void* handle) {
  MutexLock lock(models().mutex);
  auto& m = models().by_handle[handle];
  if (!m) m = std::make_shared<GraphModel>();
  return m;
}

// Return the graphs inside nodes, or inside node `n` if it is not null.
std::vector<CUgraph> graphs_inside(const GraphContents& contents, CUgraphNode n) {
  std::vector<CUgraph> inside;
  for (auto& [node, child] : contents.children)
    if (!n || node == n) inside.push_back(child);
  for (auto& c : contents.conditionals)
    if (!n || c->node == n) inside.insert(inside.end(), c->bodies.begin(), c->bodies.end());
  return inside;
}

GraphContents contents_of(GraphModel& model) {
  MutexLock lock(model.mutex);
  return model.contents;
}

GraphContents contents_of(CUgraph g) {
  return contents_of(*model_of(g));
}

void append_contents(GraphContents& to, const GraphContents& from, bool conditional) {
  for (HostCopy copy : from.copies) {
    copy.conditional |= conditional;
    to.copies.push_back(copy);
  }
  to.memory.insert(from.memory.begin(), from.memory.end());
  if (!conditional) to.events.insert(to.events.end(), from.events.begin(), from.events.end());
  for (auto& [node, child] : from.children) append_contents(to, contents_of(child), conditional);
  for (auto& c : from.conditionals)
    for (CUgraph body : c->bodies) append_contents(to, contents_of(body), true);
}

// The objects of graphs inside come first: NVIDIA's driver releases them first.
void share_all_user_objects(CUgraph from, const void* to) {
  for (CUgraph inside : graphs_inside(contents_of(from), nullptr))
    share_all_user_objects(inside, to);
  share_user_objects(from, to);
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
  MutexLock lock(models().mutex);
  models().by_handle[g] = std::move(model);
}

void merge_model(GraphModel& to, GraphModel& from, bool replace) {
  if (&to == &from) return;
  GraphContents added;
  append_contents(added, contents_of(from), false);
  MemoryNodes replaced;  // released after the lock
  MutexLock lock(to.mutex);
  if (replace) {
    to.contents.copies.clear();
    to.contents.events.clear();
    replaced.swap(to.contents.memory);
  }
  append_contents(to.contents, added, false);
}

void describe_clone(CUgraph from, CUgraph to) {
  GraphContents contents = contents_of(from);
  auto children = std::exchange(contents.children, {});
  GraphContents copied;
  append_contents(copied, contents, false);
  auto model = std::make_shared<GraphModel>(std::move(copied));
  set_model(to, model);
  share_user_objects(from, to);
  for (auto& c : contents.conditionals)
    for (CUgraph body : c->bodies) share_all_user_objects(body, to);
  for (auto& [node, child] : children) {
    CUgraphNode n;
    CUgraph copy;
    if (cuGraphNodeFindInClone(&n, node, to) || cuGraphChildGraphNodeGetGraph(n, &copy)) continue;
    describe_clone(child, copy);
    MutexLock lock(model->mutex);
    model->contents.children[n] = copy;
  }
}

void hold_user_objects(CUgraphExec e, CUgraph g) {
  UserObjects replaced = remove_user_objects(e);
  share_all_user_objects(g, e);
  auto model = model_of(e);
  MutexLock lock(model->mutex);
  model->has_objects = has_user_objects(e);
  Launches launches = model->launches;
  lock.unlock();
  release_after(std::move(replaced), std::move(launches));
}

bool has_memory_nodes(CUgraph g) {
  return has_memory_nodes(*model_of(g));
}

bool has_memory_nodes(GraphModel& model) {
  MutexLock lock(model.mutex);
  return !model.contents.memory.empty();
}

void remove_node(GraphModel& model, CUgraphNode n) {
  MutexLock lock(model.mutex);
  model.queried_params.erase(n);
  GraphContents& contents = model.contents;
  contents.children.erase(n);
  std::erase_if(contents.copies, [n](auto& c) { return c.node == n; });
  std::erase_if(contents.events, [n](auto& e) { return e.node == n; });
  std::erase_if(contents.conditionals, [n](auto& c) { return c->node == n; });
}

void RemovedGraphs::remove_inside(GraphModel& model, CUgraphNode n) {
  MutexLock lock(model.mutex);
  auto inside = graphs_inside(model.contents, n);
  lock.unlock();
  for (CUgraph g : inside) remove(g);
}

void RemovedGraphs::remove(const void* handle) {
  State state{handle, remove_user_objects(handle), nullptr};
  MutexLock lock(models().mutex);
  auto entry = models().by_handle.extract(handle);
  lock.unlock();
  if (entry) state.model = std::move(entry.mapped());
  auto model = state.model;
  states_.push_back(std::move(state));
  if (model) remove_inside(*model, nullptr);
}

static Launches launches_of(GraphModel& model) {
  MutexLock lock(model.mutex);
  return model.launches;
}

CUresult RemovedGraphs::finish(CUresult result) {
  for (auto& state : states_) {
    if (!result) {
      release_after(std::move(state.objects), state.model ? launches_of(*state.model) : Launches{});
      continue;
    }
    restore_user_objects(state.handle, std::move(state.objects));
    MutexLock lock(models().mutex);
    if (state.model) models().by_handle[state.handle] = std::move(state.model);
  }
  return result;
}

}  // namespace busbar::client
