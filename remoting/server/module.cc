// Code: images by content hash, functions with all that the client will ever ask about them, the
// linker.
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "server/session.h"
#include "wire/jit_option.h"

namespace busbar::server {

namespace {
constexpr int kUploadTimeoutMs = 120'000;
constexpr int kFunctionAttributes = 16;
constexpr size_t kLogBytes = 8192;

// The program's options and our buffer for what the compiler says.
struct JitOptions {
  std::vector<CUjit_option> names;
  std::vector<void*> values;
  unsigned count() const { return (unsigned)names.size(); }
  // False when there are too many, or one that is no number: it would be an address here.
  bool read(wire::Decoder& in, uint64_t n) {
    std::vector<wire::JitOption> list;
    if (!in.ok() || n > wire::kMaxJitOptions || !in.elements(list, n)) return false;
    for (auto& o : list) {
      if (!wire::is_number(o.option)) return false;
      add((CUjit_option)o.option, (void*)o.value);
    }
    return true;
  }
  void log_to(std::string& log) {
    add(CU_JIT_ERROR_LOG_BUFFER, log.data());
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void*)(uintptr_t)log.size());
  }

 private:
  void add(CUjit_option name, void* value) {
    names.push_back(name);
    values.push_back(value);
  }
};

std::string hex(const uint8_t* hash) {
  std::string s;
  char two[3];
  for (int i = 0; i < 32; ++i) {
    std::snprintf(two, sizeof two, "%02x", hash[i]);
    s += two;
  }
  return s;
}

bool matches(const std::string& image, const uint8_t* hash) {
  uint8_t digest[32];
  SHA256((const uint8_t*)image.data(), image.size(), digest);
  return !std::memcmp(digest, hash, 32);
}

std::string cached(const Session& s, const uint8_t* hash) {
  if (s.image_folder.empty()) return "";
  FILE* f = std::fopen((s.image_folder + "/" + hex(hash)).c_str(), "rb");
  if (!f) return "";
  std::string image;
  char buffer[65536];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, f)) > 0 && image.size() < wire::kMaxImageBytes)
    image.append(buffer, n);
  std::fclose(f);
  return matches(image, hash) ? image : "";
}

void keep(const Session& s, const uint8_t* hash, const std::string& image) {
  if (s.image_folder.empty()) return;
  std::string path = s.image_folder + "/" + hex(hash),
              fresh = path + "." + std::to_string(getpid());
  FILE* f = std::fopen(fresh.c_str(), "wb");
  if (!f) return;
  bool whole = std::fwrite(image.data(), 1, image.size(), f) == image.size();
  whole = std::fclose(f) == 0 && whole;
  if (!whole || std::rename(fresh.c_str(), path.c_str())) std::remove(fresh.c_str());
}

std::string joined(std::vector<Chunk> chunks) {
  std::string image;
  for (auto& c : chunks) image.append((const char*)c.data(), c.size());
  return image;
}

// The image of a load: from the cache, from the bulk connection, or the reply that asks for it.
bool image_of(Session& s, uint64_t reply, const uint8_t* hash, uint64_t bytes, uint64_t transfer,
              std::string& image) {
  if (!transfer) {
    image = cached(s, hash);
    if (image.empty()) s.reply(reply, wire::kNeedImage);
    return !image.empty();
  }
  if (!s.staging.wait(transfer, bytes, kUploadTimeoutMs)) {
    s.reply(reply, CUDA_ERROR_INVALID_IMAGE);
    return false;
  }
  image = joined(s.staging.collect(transfer));
  s.credit(image.size());
  if (image.size() != bytes || !matches(image, hash)) {
    s.reply(reply, CUDA_ERROR_INVALID_IMAGE);
    return false;
  }
  keep(s, hash, image);
  return true;
}
}  // namespace

// Attributes and the layout of the parameters; the function is loaded, so that no launch loads
// code.
static CUresult describe_function(Session& s, CUfunction f, std::string& out) {
  if (CUresult r = s.cu.cuFuncLoad(f)) return r;
  for (int a = 0; a < kFunctionAttributes; ++a) {
    int value = 0;
    CUresult r = s.cu.cuFuncGetAttribute(&value, (CUfunction_attribute)a, f);
    append<int32_t>(out, value);
    append<uint32_t>(out, r);
  }
  std::string layout;
  uint32_t count = 0;
  size_t offset, bytes;
  while (count < 4096 && s.cu.cuFuncGetParamInfo(f, count, &offset, &bytes) == CUDA_SUCCESS) {
    append<uint32_t>(layout, (uint32_t)offset);
    append<uint32_t>(layout, (uint32_t)bytes);
    ++count;
  }
  append<uint32_t>(out, count);
  out += layout;
  return CUDA_SUCCESS;
}

static CUresult functions_of(Session& s, CUmodule m, unsigned most, std::vector<CUfunction>& list) {
  unsigned count = 0;
  if (!s.cu.cuModuleGetFunctionCount || !s.cu.cuModuleEnumerateFunctions || !s.cu.cuFuncGetName)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult r = s.cu.cuModuleGetFunctionCount(&count, m)) return r;
  if (count > most) return CUDA_SUCCESS;
  list.resize(count);
  if (CUresult r = count ? s.cu.cuModuleEnumerateFunctions(list.data(), count, m) : CUDA_SUCCESS)
    return r;
  std::erase(list, nullptr);
  return CUDA_SUCCESS;
}

static std::string name_of(Session& s, CUfunction f) {
  const char* name = nullptr;
  return s.cu.cuFuncGetName(&name, f) || !name ? "" : name;
}

static void append_text(std::string& out, const std::string& text) {
  append<uint32_t>(out, (uint32_t)text.size());
  out += text;
}

// What get_function would answer, for each function of a small module: the client has kept numbers
// for them. One that fails is left out.
static std::string describe_small(Session& s, CUmodule m, uint32_t first) {
  std::vector<CUfunction> list;
  std::string out;
  if (!first || functions_of(s, m, wire::kFunctionsWithLoad, list)) return out;
  for (auto f : list) {
    std::string about, name = name_of(s, f);
    uint32_t number = first++;
    if (name.empty() || describe_function(s, f, about) || !s.functions.add(number, f)) continue;
    append<uint32_t>(out, number);
    append_text(out, name);
    append_text(out, about);
  }
  return out;
}

// module, whether the bytes follow, bytes, transfer, the first of the kept function numbers, 32
// bytes of hash -> functions, or the log
void load_module(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t id = in.get<uint32_t>(), inlined = in.get<uint32_t>();
  uint64_t bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>(), first = in.get<uint64_t>();
  uint64_t option_count = in.get<uint64_t>();
  const uint8_t* hash = in.raw(32);
  JitOptions options;
  if (!options.read(in, option_count)) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  const uint8_t* here = inlined && bytes <= in.left() ? in.raw(bytes) : nullptr;
  if (!in.ok() || bytes > wire::kMaxImageBytes || s.too_many_modules())
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  std::string image;
  if (here)
    image.assign((const char*)here, bytes);
  else if (!image_of(s, reply, hash, bytes, transfer, image))
    return;
  std::string log(kLogBytes, '\0');
  options.log_to(log);
  CUmodule module = nullptr;
  CUresult r = s.cu.cuModuleLoadDataEx(&module, image.c_str(), options.count(),
                                       options.names.data(), options.values.data());
  log.resize(std::strlen(log.c_str()));
  std::string functions = r ? "" : describe_small(s, module, (uint32_t)first);
  if (!r) {
    std::lock_guard lock(s.modules_mutex);
    s.modules[id] = std::make_shared<LoadedModule>(s.cu, module);
  }
  s.reply(reply, r, r ? log : functions);
}

// module
void unload_module(Session& s, wire::Decoder in) {
  ModuleRef last;  // goes after the lock
  std::lock_guard lock(s.modules_mutex);
  auto it = s.modules.find(in.get<uint32_t>());
  if (it == s.modules.end()) return;
  last = std::move(it->second);
  s.modules.erase(it);
}

// The module is let go before the answer: an unload that follows is the last to hold it, so it
// unloads at once.
static CUresult find_function(Session& s, uint32_t module, uint32_t id, const std::string& name,
                              std::string& out) {
  ModuleRef m = s.module(module);
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  CUfunction f = nullptr;
  if (CUresult r = s.cu.cuModuleGetFunction(&f, m->handle, name.c_str())) return r;
  if (CUresult r = describe_function(s, f, out)) return r;
  return s.functions.add(id, f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// module, function number, name -> attributes and the layout of the parameters
void get_function(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t module = in.get<uint32_t>(), id = in.get<uint32_t>();
  std::string name(in.text()), out;
  CUresult r = in.ok() ? find_function(s, module, id, name, out) : CUDA_ERROR_INVALID_HANDLE;
  s.reply(reply, r, r ? "" : out);
}

static CUresult list_names(Session& s, uint32_t module, std::string& out) {
  ModuleRef m = s.module(module);
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<CUfunction> list;
  if (CUresult r = functions_of(s, m->handle, wire::kMaxListed, list)) return r;
  append<uint32_t>(out, (uint32_t)list.size());
  for (auto f : list) append_text(out, name_of(s, f));
  return CUDA_SUCCESS;
}

// module -> the names of its functions
void list_functions(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t module = in.get<uint32_t>();
  std::string out;
  CUresult r = in.ok() ? list_names(s, module, out) : CUDA_ERROR_INVALID_HANDLE;
  s.reply(reply, r, out);
}

// function, grid, block, shared bytes, attributes -> a number
static void ask_clusters(Session& s, wire::Decoder in,
                         CUresult (*ask)(int*, CUfunction, const CUlaunchConfig*)) {
  uint64_t reply = in.get<uint64_t>();
  CUfunction f = s.function_named(in.get<uint32_t>());
  CUlaunchConfig c{};
  c.gridDimX = in.get<uint32_t>();
  c.gridDimY = in.get<uint32_t>();
  c.gridDimZ = in.get<uint32_t>();
  c.blockDimX = in.get<uint32_t>();
  c.blockDimY = in.get<uint32_t>();
  c.blockDimZ = in.get<uint32_t>();
  c.sharedMemBytes = in.get<uint32_t>();
  c.numAttrs = in.get<uint32_t>();
  std::vector<CUlaunchAttribute> attributes;
  if (c.numAttrs > 8 || !in.elements(attributes, c.numAttrs) || !f)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  c.attrs = attributes.data();
  int n = 0;
  CUresult r = ask ? ask(&n, f, &c) : CUDA_ERROR_NOT_SUPPORTED;
  std::string out;
  append(out, n);
  s.reply(reply, r, out);
}
void active_clusters(Session& s, wire::Decoder in) {
  ask_clusters(s, in, s.cu.cuOccupancyMaxActiveClusters);
}
void cluster_size(Session& s, wire::Decoder in) {
  ask_clusters(s, in, s.cu.cuOccupancyMaxPotentialClusterSize);
}

void get_global(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  ModuleRef m = s.module(in.get<uint32_t>());
  std::string name(in.text());
  if (!in.ok() || !m) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  CUdeviceptr at = 0;
  size_t bytes = 0;
  CUresult r = s.cu.cuModuleGetGlobal(&at, &bytes, m->handle, name.c_str());
  std::string out;
  append<uint64_t>(out, at);
  append<uint64_t>(out, bytes);
  s.reply(reply, r, out);
}

// inputs: count, then type, bytes, transfer each -> the linked image, or the log
void link_images(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t count = in.get<uint32_t>();
  uint32_t option_count = in.get<uint32_t>();
  JitOptions options;
  if (!options.read(in, option_count) || count == 0 || count > 256)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  std::string log(kLogBytes, '\0');
  options.log_to(log);
  CUlinkState state;
  if (CUresult r =
          s.cu.cuLinkCreate(options.count(), options.names.data(), options.values.data(), &state))
    return s.reply(reply, r);
  CUresult r = CUDA_SUCCESS;
  std::vector<std::string> images;
  for (uint32_t i = 0; i < count && !r; ++i) {
    uint32_t type = in.get<uint32_t>();
    in.get<uint32_t>();
    uint64_t bytes = in.get<uint64_t>(), transfer = in.get<uint64_t>();
    if (!in.ok() || bytes > wire::kMaxImageBytes ||
        !s.staging.wait(transfer, bytes, kUploadTimeoutMs)) {
      r = CUDA_ERROR_INVALID_VALUE;
      break;
    }
    images.push_back(joined(s.staging.collect(transfer)));
    s.credit(images.back().size());
    r = s.cu.cuLinkAddData(state, (CUjitInputType)type, images.back().data(), images.back().size(),
                           "input", 0, nullptr, nullptr);
  }
  void* image = nullptr;
  size_t bytes = 0;
  if (!r) r = s.cu.cuLinkComplete(state, &image, &bytes);
  log.resize(std::strlen(log.c_str()));
  if (!r && bytes > wire::kMaxFrameBytes - 64) r = CUDA_ERROR_OUT_OF_MEMORY;
  s.reply(reply, r, r ? log : std::string((const char*)image, bytes));
  s.cu.cuLinkDestroy(state);
}

}  // namespace busbar::server
