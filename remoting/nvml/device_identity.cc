// NVML entry points: enumeration and identity of devices.
#include <nvml.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nvml/require.h"
#include "pci_address.h"

using namespace busbar;
using namespace busbar::nvml;

// ---- enumeration ----
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* n) {
  LOCK_LIBRARY;
  CHECK_ARGUMENT(n);
  *n = (unsigned)library().devices.size();
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetCount
API nvmlReturn_t nvmlDeviceGetCount(unsigned* n) {
  return nvmlDeviceGetCount_v2(n);
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t* out) {
  LOCK_LIBRARY;
  CHECK_ARGUMENT(out && i < library().devices.size());
  *out = (nvmlDevice_t)library().devices[i];
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetHandleByIndex
API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned i, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByIndex_v2(i, out);
}
API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  LOCK_LIBRARY;
  CHECK_ARGUMENT(uuid && out);
  for (Device* d : library().devices)
    if (uuid_text(*d) == uuid) {
      *out = (nvmlDevice_t)d;
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* out) {
  LOCK_LIBRARY;
  CHECK_ARGUMENT(id && out);
  auto address = busbar::read_pci_address(id);
  CHECK_ARGUMENT(address);
  for (Device* d : library().devices)
    if (address == busbar::PciAddress{d->identity.domain, d->identity.bus, d->identity.slot}) {
      *out = (nvmlDevice_t)d;
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}
#undef nvmlDeviceGetHandleByPciBusId
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, out);
}

// ---- identity ----
API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t h, unsigned* i) {
  FIND_DEVICE(d, h);
  CHECK_ARGUMENT(i);
  *i = (unsigned)d->index;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t h, unsigned* i) {
  return nvmlDeviceGetIndex(h, i);
}
API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t h, char* out, unsigned room) {
  FIND_DEVICE(d, h);
  return copy_text(out, room, d->identity.name);
}
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t h, char* out, unsigned room) {
  FIND_DEVICE(d, h);
  return copy_text(out, room, uuid_text(*d));
}
API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t h, char* out, unsigned room) {
  FIND_FRESH_DEVICE(d, h);
  return *d->sample.vbios ? copy_text(out, room, d->sample.vbios) : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t h, char* out, unsigned room) {
  FIND_FRESH_DEVICE(d, h);
  return *d->sample.serial ? copy_text(out, room, d->sample.serial) : NVML_ERROR_NOT_SUPPORTED;
}
API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t h, int* major, int* minor) {
  FIND_DEVICE(d, h);
  CHECK_ARGUMENT(major && minor);
  *major = (int)d->identity.major;
  *minor = (int)d->identity.minor;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t h, nvmlPciInfo_t* p) {
  FIND_DEVICE(d, h);
  CHECK_ARGUMENT(p);
  *p = {};
  p->domain = d->identity.domain;
  p->bus = d->identity.bus;
  p->device = d->identity.slot;
  std::snprintf(p->busId, sizeof p->busId, "%s", bus_id(*d).c_str());
  std::snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain, p->bus,
                p->device);
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetPciInfo
API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t h, nvmlPciInfo_t* p) {
  return nvmlDeviceGetPciInfo_v3(h, p);
}
API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t h, nvmlPciInfo_t* p) {
  return nvmlDeviceGetPciInfo_v3(h, p);
}
