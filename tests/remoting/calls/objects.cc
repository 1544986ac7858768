#include "objects.h"

#include <dlfcn.h>

#include <functional>

namespace {
using Create = std::function<uint64_t(Objects&)>;

template <class T>
uint64_t word(T value) {
  uint64_t out = 0;
  memcpy(&out, &value, sizeof value);
  return out;
}

// Call a function whose first argument receives the object. Return 0 if it is not supported.
template <class T, class... A, class... V>
uint64_t made(CUresult (*create)(T*, A...), V... values) {
  T out{};
  CUresult r = create(&out, (A)values...);
  return r ? 0 : word(out);
}

uint64_t make_module(Objects&) {
  return made(cuModuleLoadData, PTX);
}

uint64_t make_library(Objects&) {
  return made(cuLibraryLoadData, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

uint64_t make_linker(Objects&) {
  CUlinkState state;
  OK(cuLinkCreate(0, nullptr, nullptr, &state));
  OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void*)PTX, strlen(PTX) + 1, "bump", 0, nullptr,
                   nullptr));
  return word(state);
}

uint64_t make_array(Objects&) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = d.Height = 16;
  d.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  d.NumChannels = 1;
  d.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  return made(cuArray3DCreate, &d);
}

uint64_t make_mipmap(Objects&) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = d.Height = 16;
  d.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  d.NumChannels = 1;
  return made(cuMipmappedArrayCreate, &d, 2);
}

uint64_t make_texture(Objects& o) {
  CUDA_RESOURCE_DESC r = {};
  CUDA_TEXTURE_DESC t = {};
  r.resType = CU_RESOURCE_TYPE_ARRAY;
  r.res.array.hArray = (CUarray)o.get("array");
  return made(cuTexObjectCreate, &r, &t, nullptr);
}

uint64_t make_surface(Objects& o) {
  CUDA_RESOURCE_DESC r = {};
  r.resType = CU_RESOURCE_TYPE_ARRAY;
  r.res.array.hArray = (CUarray)o.get("array");
  return made(cuSurfObjectCreate, &r);
}

uint64_t make_pool(Objects&) {
  CUmemPoolProps p = {};
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return made(cuMemPoolCreate, &p);
}

uint64_t make_allocation(Objects&) {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return made(cuMemCreate, 2u << 20, &p, 0);
}

uint64_t make_user_object(Objects&) {
  return made(cuUserObjectCreate, nullptr, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
}

uint64_t make_reservation(Objects&) {
  return made(cuMemAddressReserve, 2u << 20, 0, 0, 0);
}

uint64_t make_mapping(Objects& o) {
  CUdeviceptr at = make_reservation(o);
  OK(cuMemMap(at, 2 << 20, 0, o.get("allocation"), 0));
  return at;
}

uint64_t make_host(Objects&) {
  return made(cuMemHostAlloc, 4096, 0);
}

uint64_t make_page(Objects&) {
  return word(aligned_alloc(4096, 4096));
}

uint64_t make_registered(Objects& o) {
  void* page = (void*)make_page(o);
  OK(cuMemHostRegister(page, 4096, 0));
  return word(page);
}

uint64_t make_capture(Objects&) {
  CUstream s;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  return word(s);
}

uint64_t make_recorded(Objects&) {
  CUevent e;
  OK(cuEventCreate(&e, 0));
  OK(cuEventRecord(e, nullptr));
  OK(cuEventSynchronize(e));
  return word(e);
}

// Create a graph that has a node of each type, and remember the nodes.
uint64_t make_graph(Objects& o) {
  CUgraph g;
  CUgraphNode n;
  static char buffer[4096];
  auto structure = [&](const char* name) {
    memset(buffer, 0, sizeof buffer);
    write_structure(name, o, buffer);
    return (void*)buffer;
  };
  OK(cuGraphCreate(&g, 0));
  o.set("graph", word(g));
  OK(cuGraphAddEmptyNode(&n, g, nullptr, 0));
  o.set("node", word(n));
  CUgraphNode first = n;
  OK(cuGraphAddEmptyNode(&n, g, &first, 1));
  o.set("second_node", word(n));
  OK(cuGraphAddMemsetNode(&n, g, nullptr, 0, (CUDA_MEMSET_NODE_PARAMS*)structure("memset"),
                          o.context()));
  o.set("memset_node", word(n));
  OK(cuGraphAddMemcpyNode(&n, g, nullptr, 0, (CUDA_MEMCPY3D*)structure("copy3d"), o.context()));
  o.set("memcpy_node", word(n));
  OK(cuGraphAddKernelNode(&n, g, nullptr, 0, (CUDA_KERNEL_NODE_PARAMS*)structure("kernel_node")));
  o.set("kernel_node", word(n));
  OK(cuGraphAddHostNode(&n, g, nullptr, 0, (CUDA_HOST_NODE_PARAMS*)structure("host_node")));
  o.set("host_node", word(n));
  OK(cuGraphAddEventRecordNode(&n, g, nullptr, 0, (CUevent)o.get("event")));
  o.set("record_node", word(n));
  OK(cuGraphAddEventWaitNode(&n, g, nullptr, 0, (CUevent)o.get("event")));
  o.set("wait_node", word(n));
  OK(cuGraphAddChildGraphNode(&n, g, nullptr, 0, (CUgraph)o.get("child_graph")));
  o.set("child_node", word(n));
  OK(cuGraphAddBatchMemOpNode(&n, g, nullptr, 0,
                              (CUDA_BATCH_MEM_OP_NODE_PARAMS*)structure("batch_node")));
  o.set("batch_node", word(n));
  return word(g);
}

uint64_t make_nvml_device(Objects&) {
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  auto initialize = (int (*)())dlsym(nvml, "nvmlInit_v2");
  auto find = (int (*)(unsigned, void**))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
  void* device = nullptr;
  if (initialize() || find(0, &device)) exit(1);
  return word(device);
}

uint64_t make_attached_context(Objects& o) {
  CUcontext c;
  OK(cuCtxAttach(&c, 0));
  return word(o.context());
}

// A function with a shape and parameters for cuLaunch.
uint64_t make_shaped_function(Objects& o) {
  auto f = (CUfunction)o.get("function");
  CUdeviceptr p = o.memory();
  OK(cuFuncSetBlockShape(f, 16, 1, 1));
  OK(cuParamSetSize(f, 20));
  OK(cuParamSetv(f, 0, &p, 8));
  OK(cuParamSeti(f, 8, 16));
  OK(cuParamSeti(f, 12, 1));
  OK(cuParamSeti(f, 16, 1));
  return word(f);
}

uint64_t make_retaining_graph(Objects& o) {
  auto g = (CUgraph)o.get("graph");
  OK(cuGraphRetainUserObject(g, (CUuserObject)o.get("user_object"), 1, 0));
  return word(g);
}

// A graph with a node that allocates memory and one that frees it.
uint64_t make_allocating_graph(Objects& o) {
  CUgraph g;
  CUgraphNode n, freeing;
  CUDA_MEM_ALLOC_NODE_PARAMS p = {};
  write_structure("allocation_node", o, &p);
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddMemAllocNode(&n, g, nullptr, 0, &p));
  OK(cuGraphAddMemFreeNode(&freeing, g, &n, 1, p.dptr));
  o.set("graph_free", word(freeing));
  OK(cuGraphAddMemAllocNode(&n, g, nullptr, 0, &p));
  o.set("graph_allocation", word(n));
  o.set("graph_pointer", p.dptr);
  return word(g);
}

uint64_t make_in_allocating_graph(Objects& o, const char* kind) {
  o.set("allocating_graph", make_allocating_graph(o));
  return o.get(kind);
}

uint64_t make_clone(Objects& o) {
  return made(cuGraphClone, (CUgraph)o.get("graph"));
}

uint64_t make_one_in_each_byte(Objects&) {
  uint64_t memory = made(cuMemAlloc, kMemoryBytes);
  OK(cuMemsetD8(memory, 1, kMemoryBytes));
  return memory;
}

const std::map<std::string, Create>& creators() {
  static const std::map<std::string, Create> all = {
      {"context", [](Objects& o) { return word(o.context()); }},
      {"attached_context", make_attached_context},
      {"shaped_function", make_shaped_function},
      {"retaining_graph", make_retaining_graph},
      {"second_pointer", [](Objects&) { return made(cuMemAlloc, kMemoryBytes); }},
      {"new_context", [](Objects&) { return made(cuCtxCreate_v4, nullptr, 0, 0); }},
      {"device", [](Objects&) { return 0; }},
      {"stream", [](Objects&) { return made(cuStreamCreate, CU_STREAM_NON_BLOCKING); }},
      {"second_stream", [](Objects&) { return made(cuStreamCreate, CU_STREAM_NON_BLOCKING); }},
      {"capture", make_capture},
      {"nvml_device", make_nvml_device},
      {"nvml_none", [](Objects&) { return 0; }},
      {"event", [](Objects&) { return made(cuEventCreate, 0); }},
      {"recorded", make_recorded},
      {"second_recorded", make_recorded},
      {"module", make_module},
      {"function",
       [](Objects& o) { return made(cuModuleGetFunction, (CUmodule)o.get("module"), "bump"); }},
      {"library", make_library},
      {"kernel",
       [](Objects& o) { return made(cuLibraryGetKernel, (CUlibrary)o.get("library"), "bump"); }},
      {"linker", make_linker},
      {"pointer", [](Objects&) { return made(cuMemAlloc, kMemoryBytes); }},
      {"one_in_each_byte", make_one_in_each_byte},
      {"managed", [](Objects&) { return made(cuMemAllocManaged, 4096, CU_MEM_ATTACH_GLOBAL); }},
      {"pooled", [](Objects& o) { return made(cuMemAllocAsync, 4096, (CUstream)o.get("stream")); }},
      {"host", make_host},
      {"page", make_page},
      {"registered", make_registered},
      {"reservation", make_reservation},
      {"mapping", make_mapping},
      {"allocation", make_allocation},
      {"pool", make_pool},
      {"array", make_array},
      {"mipmap", make_mipmap},
      {"texture", make_texture},
      {"surface", make_surface},
      {"user_object", make_user_object},
      {"graph", make_graph},
      {"child_graph", [](Objects&) { return made(cuGraphCreate, 0); }},
      {"allocating_graph", make_allocating_graph},
      {"graph_allocation",
       [](Objects& o) { return make_in_allocating_graph(o, "graph_allocation"); }},
      {"graph_free", [](Objects& o) { return make_in_allocating_graph(o, "graph_free"); }},
      {"graph_pointer", [](Objects& o) { return make_in_allocating_graph(o, "graph_pointer"); }},
      {"clone", make_clone},
      {"exec", [](Objects& o) { return made(cuGraphInstantiate, (CUgraph)o.get("graph"), 0); }},
      {"condition",
       [](Objects& o) {
         return made(cuGraphConditionalHandleCreate, (CUgraph)o.get("graph"), o.context(), 0, 0);
       }},
  };
  return all;
}
template <class T>
std::function<CUresult(uint64_t)> ends(CUresult (*destroy)(T)) {
  return [destroy](uint64_t value) {
    return destroy((T)value);
  };
}

const std::map<std::string, std::function<CUresult(uint64_t)>>& destroyers() {
  static const std::map<std::string, std::function<CUresult(uint64_t)>> all = {
      {"stream", ends(cuStreamDestroy)},
      {"event", ends(cuEventDestroy)},
      {"module", ends(cuModuleUnload)},
      {"library", ends(cuLibraryUnload)},
      {"linker", ends(cuLinkDestroy)},
      {"pointer", ends(cuMemFree)},
      {"host", [](uint64_t value) { return cuMemFreeHost((void*)value); }},
      {"allocation", ends(cuMemRelease)},
      {"pool", ends(cuMemPoolDestroy)},
      {"array", ends(cuArrayDestroy)},
      {"mipmap", ends(cuMipmappedArrayDestroy)},
      {"texture", ends(cuTexObjectDestroy)},
      {"surface", ends(cuSurfObjectDestroy)},
      {"graph", ends(cuGraphDestroy)},
      {"child_graph", ends(cuGraphDestroy)},
      {"exec", ends(cuGraphExecDestroy)},
      {"context", ends(cuCtxDestroy)},
      {"user_object", [](uint64_t value) { return cuUserObjectRelease((CUuserObject)value, 1); }},
  };
  return all;
}

// The objects that end together with an object of another kind.
const std::map<std::string, std::string>& owners() {
  static const std::map<std::string, std::string> all = {{"function", "module"},
                                                         {"shaped_function", "module"},
                                                         {"kernel", "library"},
                                                         {"condition", "graph"}};
  return all;
}

bool is_node(const std::string& kind) {
  return kind.size() >= 4 && kind.compare(kind.size() - 4, 4, "node") == 0;
}
}  // namespace

void fail_creation(const char* call, CUresult result) {
  fprintf(stderr, "%s -> %d\n", call, (int)result);
  throw CreationFailure{result};
}

uint64_t Objects::get(const std::string& kind) {
  if (auto known = values_.find(kind); known != values_.end()) return known->second;
  if (is_node(kind)) {
    values_["graph"] = make_graph(*this);
    return values_.at(kind);
  }
  auto create = creators().find(kind);
  if (create == creators().end()) {
    printf("unknown kind %s\n", kind.c_str());
    exit(1);
  }
  return values_[kind] = create->second(*this);
}

uint64_t Objects::freed(const std::string& kind) {
  if (auto known = freed_.find(kind); keeps_ && known != freed_.end()) return known->second;
  auto owner = owners().find(kind);
  const std::string& ended = owner == owners().end() ? kind : owner->second;
  auto kept = values_;
  values_.clear();
  uint64_t value = kind == "context" ? get("new_context") : get(kind);
  if (!value) {
    // not supported
  } else if (is_node(kind)) {
    OK(cuGraphDestroyNode((CUgraphNode)value));
  } else if (auto destroy = destroyers().find(ended); destroy != destroyers().end()) {
    OK(destroy->second(ended == "context" ? value : get(ended)));
  } else {
    value = 0;
  }
  OK(cuCtxSetCurrent(context_));
  values_ = kept;
  return freed_[kind] = value;
}

uint64_t Objects::of_other_context(const std::string& kind) {
  if (kind == "context") return word(other_);
  if (auto known = others_.find(kind); keeps_ && known != others_.end()) return known->second;
  auto kept = values_;
  values_.clear();
  if (cuCtxSetCurrent(other_)) OK(cuCtxCreate_v4(&other_, nullptr, 0, 0));
  uint64_t value = get(kind);
  OK(cuCtxSetCurrent(context_));
  values_ = kept;
  return others_[kind] = value;
}

void Objects::forget(const std::string& kind) {
  values_.erase(kind);
  others_.erase(kind);
  for (auto& [dependent, owner] : owners())
    if (owner == kind) values_.erase(dependent);
  if (!is_node(kind) && kind != "graph") return;
  values_.erase("graph");
  std::erase_if(values_, [](auto& entry) { return is_node(entry.first); });
}

void Objects::start() {
  OK(cuInit(0));
  forget();
  if (!other_) OK(cuCtxCreate_v4(&other_, nullptr, 0, 0));
  OK(cuCtxCreate_v4(&context_, nullptr, 0, 0));
  OK(cuMemAlloc(&memory_, kMemoryBytes));
}

bool Objects::works() {
  unsigned found = 0;
  return !cuCtxSetCurrent(context_) && !cuMemsetD32(memory_, 77, 1) &&
         !cuMemcpyDtoH(&found, memory_, 4) && found == 77 && !cuCtxSynchronize();
}

bool Objects::recover() {
  if (works()) return true;
  // Both: a capture that a call left in one of them can keep work of the other from starting.
  cuCtxDestroy(context_);
  cuCtxDestroy(other_);
  other_ = nullptr;
  start();
  return false;
}
