// Structures and arrays behind the pointer arguments of the generated calls.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "objects.h"

namespace {
template <class T>
T& as(void* buffer) {
  return *(T*)buffer;
}

char* host_memory() {
  static char memory[4096];
  return memory;
}

// The parameters of the kernel `bump`.
void kernel_parameters(Objects& o, void* buffer) {
  static CUdeviceptr p;
  static unsigned numbers[3] = {16, 1, 1};
  p = o.memory();
  void** list = (void**)buffer;
  list[0] = &p;
  for (int i = 0; i < 3; ++i) list[1 + i] = &numbers[i];
}

void copy2d(Objects& o, void* buffer) {
  auto& c = as<CUDA_MEMCPY2D>(buffer);
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = host_memory();
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = o.memory();
  c.WidthInBytes = 16;
  c.Height = 2;
  c.srcPitch = c.dstPitch = 64;
}

void copy3d(Objects& o, void* buffer) {
  auto& c = as<CUDA_MEMCPY3D>(buffer);
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = o.memory();
  c.dstDevice = o.memory() + 2048;
  c.WidthInBytes = 16;
  c.Height = c.Depth = 1;
}

void copy3d_peer(Objects& o, void* buffer) {
  auto& c = as<CUDA_MEMCPY3D_PEER>(buffer);
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = o.memory();
  c.dstDevice = o.memory() + 2048;
  c.srcContext = c.dstContext = o.context();
  c.WidthInBytes = 16;
  c.Height = c.Depth = 1;
}

void copy3d_operation(Objects& o, void* buffer) {
  auto& c = as<CUDA_MEMCPY3D_BATCH_OP>(buffer);
  c.src.type = c.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  c.src.op.ptr.ptr = o.memory();
  c.dst.op.ptr.ptr = o.memory() + 2048;
  c.extent.width = 16;
  c.extent.height = c.extent.depth = 1;
  c.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}

void copy_attributes(Objects&, void* buffer) {
  as<CUmemcpyAttributes>(buffer).srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}

void memset_parameters(Objects& o, void* buffer) {
  auto& m = as<CUDA_MEMSET_NODE_PARAMS>(buffer);
  m.dst = o.memory();
  m.value = 5;
  m.elementSize = 4;
  m.width = 4;
  m.height = 1;
}

void kernel_node(Objects& o, void* buffer) {
  auto& k = as<CUDA_KERNEL_NODE_PARAMS>(buffer);
  static void* parameters[4];
  kernel_parameters(o, parameters);
  k.func = (CUfunction)o.get("function");
  k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = 16;
  k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = parameters;
}

void host_node(Objects&, void* buffer) {
  as<CUDA_HOST_NODE_PARAMS>(buffer).fn = [](void*) {
  };
}

void write_value(Objects& o, void* buffer) {
  auto& b = as<CUstreamBatchMemOpParams>(buffer);
  b.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  b.writeValue.address = o.memory();
  b.writeValue.value = 3;
}

void batch_node(Objects& o, void* buffer) {
  auto& b = as<CUDA_BATCH_MEM_OP_NODE_PARAMS>(buffer);
  static CUstreamBatchMemOpParams operation;
  write_value(o, &operation);
  b.ctx = o.context();
  b.count = 1;
  b.paramArray = &operation;
}

void memset_node_parameters(Objects& o, void* buffer) {
  auto& n = as<CUgraphNodeParams>(buffer);
  n.type = CU_GRAPH_NODE_TYPE_MEMSET;
  memset_parameters(o, &n.memset);
  n.memset.ctx = o.context();
}

void array_description(Objects&, void* buffer) {
  auto& d = as<CUDA_ARRAY_DESCRIPTOR>(buffer);
  d.Width = d.Height = 16;
  d.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  d.NumChannels = 1;
}

void array3d_description(Objects&, void* buffer) {
  auto& d = as<CUDA_ARRAY3D_DESCRIPTOR>(buffer);
  d.Width = d.Height = 16;
  d.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  d.NumChannels = 1;
}

void array_resource(Objects& o, void* buffer) {
  auto& r = as<CUDA_RESOURCE_DESC>(buffer);
  r.resType = CU_RESOURCE_TYPE_ARRAY;
  r.res.array.hArray = (CUarray)o.get("array");
}

void launch_configuration(Objects&, void* buffer) {
  auto& c = as<CUlaunchConfig>(buffer);
  c.gridDimX = c.gridDimY = c.gridDimZ = 1;
  c.blockDimX = 16;
  c.blockDimY = c.blockDimZ = 1;
}

void cluster_configuration(Objects& o, void* buffer) {
  static CUlaunchAttribute cluster;
  launch_configuration(o, buffer);
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  as<CUlaunchConfig>(buffer).attrs = &cluster;
  as<CUlaunchConfig>(buffer).numAttrs = 1;
}

void location(Objects&, void* buffer) {
  as<CUmemLocation>(buffer).type = CU_MEM_LOCATION_TYPE_DEVICE;
}

void allocation_properties(Objects&, void* buffer) {
  auto& p = as<CUmemAllocationProp>(buffer);
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
}

void access_description(Objects&, void* buffer) {
  auto& d = as<CUmemAccessDesc>(buffer);
  d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

void allocation_node(Objects&, void* buffer) {
  auto& a = as<CUDA_MEM_ALLOC_NODE_PARAMS>(buffer);
  a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  a.bytesize = 4096;
}

void pool_properties(Objects&, void* buffer) {
  auto& p = as<CUmemPoolProps>(buffer);
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
}

void memory_handle(Objects& o, void* buffer) {
  OK(cuIpcGetMemHandle((CUipcMemHandle*)buffer, o.memory()));
}

void tensor_map(Objects& o, void* buffer) {
  cuuint64_t sizes[2] = {64, 4}, strides[1] = {64};
  cuuint32_t box[2] = {16, 1}, steps[2] = {1, 1};
  // Not every device has tensor maps.
  cuTensorMapEncodeTiled((CUtensorMap*)buffer, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void*)o.memory(),
                         sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// Fillers of arrays of one pointer.
void pointer_to_memory(Objects&, void* buffer) {
  as<void*>(buffer) = host_memory();
}

void pointer_to_pci_address(Objects&, void* buffer) {
  OK(cuDeviceGetPCIBusId((char*)buffer, 64, 0));
}

// Structures of NVML that state their version.
struct NvmlMemory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

void nvml_memory(Objects&, void* buffer) {
  as<NvmlMemory>(buffer).version = sizeof(NvmlMemory) | 2u << 24;
}

void nvml_branch(Objects&, void* buffer) {
  as<unsigned>(buffer) = 84 | 1u << 24;
}

void nvml_uuid(Objects& o, void* buffer) {
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  auto get = (int (*)(uint64_t, char*, unsigned))dlsym(nvml, "nvmlDeviceGetUUID");
  get(o.get("nvml_device"), (char*)buffer, 96);
}

// The name of a file with a kernel.
void ptx_file(Objects&, void* buffer) {
  static int file = -1;
  if (file < 0) {
    file = memfd_create("kernel", 0);
    if (file < 0 || write(file, PTX, strlen(PTX)) < 0) exit(1);
  }
  sprintf((char*)buffer, "/proc/self/fd/%d", file);
}

const std::map<std::string, void (*)(Objects&, void*)>& writers() {
  static const std::map<std::string, void (*)(Objects&, void*)> all = {
      {"kernel_parameters", kernel_parameters},
      {"copy2d", copy2d},
      {"copy3d", copy3d},
      {"copy3d_peer", copy3d_peer},
      {"copy3d_operation", copy3d_operation},
      {"copy_attributes", copy_attributes},
      {"memset", memset_parameters},
      {"kernel_node", kernel_node},
      {"host_node", host_node},
      {"write_value", write_value},
      {"batch_node", batch_node},
      {"memset_node", memset_node_parameters},
      {"array_description", array_description},
      {"array3d_description", array3d_description},
      {"array_resource", array_resource},
      {"launch_configuration", launch_configuration},
      {"cluster_configuration", cluster_configuration},
      {"location", location},
      {"allocation_properties", allocation_properties},
      {"access_description", access_description},
      {"allocation_node", allocation_node},
      {"pool_properties", pool_properties},
      {"memory_handle", memory_handle},
      {"tensor_map", tensor_map},
      {"pointer_to_memory", pointer_to_memory},
      {"pci_address", pointer_to_pci_address},
      {"nvml_memory", nvml_memory},
      {"nvml_branch", nvml_branch},
      {"nvml_uuid", nvml_uuid},
      {"ptx_file", ptx_file},
      {"ptx", [](Objects&, void* buffer) { strcpy((char*)buffer, PTX); }},
  };
  return all;
}

// Elements of `size` bytes, such as "words:64,4" of 4 bytes each.
void numbers(const std::string& list, size_t size, void* buffer) {
  char* at = (char*)buffer;
  for (size_t start = 0; start < list.size();) {
    uint64_t value = strtoull(list.c_str() + start, nullptr, 0);
    memcpy(at, &value, size);
    at += size;
    size_t comma = list.find(',', start);
    start = comma == std::string::npos ? list.size() : comma + 1;
  }
}
}  // namespace

void write_structure(const std::string& name, Objects& objects, void* buffer) {
  if (auto writer = writers().find(name); writer != writers().end()) {
    writer->second(objects, buffer);
    return;
  }
  size_t colon = name.find(':');
  std::string form = name.substr(0, colon);
  std::string rest = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (form == "text") return (void)strcpy((char*)buffer, rest.c_str());
  if (form == "words") return numbers(rest, 4, buffer);
  if (form == "longs") return numbers(rest, 8, buffer);
  if (form == "handle") {
    *(uint64_t*)buffer = objects.get(rest);
    return;
  }
  if (form == "out") return;
  printf("unknown structure %s\n", name.c_str());
  exit(1);
}
