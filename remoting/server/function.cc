#include "server/function.h"

#include "server/handlers.h"
#include "server/launch_config.h"
#include "server/reply.h"

namespace busbar::server {

namespace {
constexpr uint32_t kMaxParameters = 32764;  // one for each byte that CUDA permits

// Lists the functions of a module; none if there are more than `most`.
CUresult functions_of(Session& s, CUmodule m, unsigned most, std::vector<CUfunction>& list) {
  unsigned count = 0;
  if (!s.cu.cuModuleGetFunctionCount || !s.cu.cuModuleEnumerateFunctions || !s.cu.cuFuncGetName)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = s.cu.cuModuleGetFunctionCount(&count, m)) return r;
  if (count == 0 || count > most) return CUDA_SUCCESS;
  list.resize(count);
  if (CUresult r = s.cu.cuModuleEnumerateFunctions(list.data(), count, m)) return r;
  std::erase(list, nullptr);
  return CUDA_SUCCESS;
}

std::string name_of(Session& s, CUfunction f) {
  const char* name = nullptr;
  return s.cu.cuFuncGetName(&name, f) || !name ? "" : name;
}

void append_text(std::string& out, const std::string& text) {
  append<uint32_t>(out, (uint32_t)text.size());
  out += text;
}

// The reference to the module ends before the reply: an unload that follows then unloads at once.
CUresult find_function(Session& s, uint32_t module, uint32_t id, const std::string& name, bool asks,
                       std::string& out) {
  ModuleRef m = s.module(module);
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  CUfunction f = nullptr;
  if (CUresult r = s.cu.cuModuleGetFunction(&f, m->handle, name.c_str())) return r;
  if (CUresult r = describe_function(s, f, asks, out)) return r;
  return m->add_function(s.functions, id, f);
}

CUresult list_names(Session& s, uint32_t module, std::string& out) {
  ModuleRef m = s.module(module);
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<CUfunction> list;
  if (CUresult r = functions_of(s, m->handle, wire::kMaxListElements, list)) return r;
  append<uint32_t>(out, (uint32_t)list.size());
  for (auto f : list) append_text(out, name_of(s, f));
  return out.size() > wire::kMaxFrameBytes - 64 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// function, grid, block, shared bytes, number of attributes, attributes -> a number
void reply_occupancy(Session& s, wire::Decoder in,
                     CUresult (*query)(int*, CUfunction, const CUlaunchConfig*)) {
  uint64_t reply = in.get<uint64_t>();
  CUfunction f = s.function_handle(in.get<uint32_t>());
  CUlaunchConfig config = driver_config(in.get<wire::LaunchConfig>());
  if (config.numAttrs > wire::kMaxLaunchAttributes) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  LaunchAttributes attributes;
  CUresult refused = attributes.read(in, config);
  if (!in.ok() || !f) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (refused) return s.reply(reply, refused);
  int n = 0;
  CUresult r = query ? query(&n, f, &config) : CUDA_ERROR_NOT_SUPPORTED;
  std::string out;
  append(out, n);
  s.reply(reply, r, out);
}
}  // namespace

CUresult describe_function(Session& s, CUfunction f, bool asks, std::string& out) {
  if (CUresult r = s.cu.cuFuncLoad(f)) return r;
  if (CUresult r = s.limits.admit(s.current_partition(), f, asks)) return r;
  for (int a = 0; a < wire::kFunctionAttributes; ++a) {
    int value = 0;
    CUresult r = s.cu.cuFuncGetAttribute(&value, (CUfunction_attribute)a, f);
    append<int32_t>(out, value);
    append<uint32_t>(out, r);
  }
  std::string layout;
  uint32_t count = 0;
  size_t offset, bytes;
  while (count < kMaxParameters &&
         s.cu.cuFuncGetParamInfo(f, count, &offset, &bytes) == CUDA_SUCCESS) {
    append<uint32_t>(layout, (uint32_t)offset);
    append<uint32_t>(layout, (uint32_t)bytes);
    ++count;
  }
  append<uint32_t>(out, count);
  out += layout;
  return CUDA_SUCCESS;
}

std::string describe_small_module(Session& s, LoadedModule& m, uint32_t first_id) {
  std::vector<CUfunction> list;
  std::string out;
  if (!first_id || functions_of(s, m.handle, wire::kFunctionsInLoadReply, list)) return out;
  for (auto f : list) {
    std::string description, name = name_of(s, f);
    uint32_t id = first_id++;
    if (name.empty() || describe_function(s, f, false, description) ||
        m.add_function(s.functions, id, f))
      continue;
    append<uint32_t>(out, id);
    append_text(out, name);
    append_text(out, description);
  }
  return out;
}

// module, function id, 1: ask other sessions for unused memory, name -> attributes and the layout
// of the parameters
void handlers::get_function(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t module = in.get<uint32_t>(), id = in.get<uint32_t>();
  bool asks = in.get<uint32_t>() != 0;
  std::string name(in.text()), out;
  CUresult r = in.ok() ? find_function(s, module, id, name, asks, out) : CUDA_ERROR_INVALID_HANDLE;
  s.reply(reply, r, r ? "" : out);
}

// module -> the names of its functions
void handlers::list_functions(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t module = in.get<uint32_t>();
  std::string out;
  CUresult r = in.ok() ? list_names(s, module, out) : CUDA_ERROR_INVALID_HANDLE;
  s.reply(reply, r, out);
}

void handlers::active_clusters(Session& s, wire::Decoder in) {
  reply_occupancy(s, in, s.cu.cuOccupancyMaxActiveClusters);
}

void handlers::cluster_size(Session& s, wire::Decoder in) {
  reply_occupancy(s, in, s.cu.cuOccupancyMaxPotentialClusterSize);
}

}  // namespace busbar::server
