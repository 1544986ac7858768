// PCI address of a GPU, as CUDA and NVML accept it from programs.
#pragma once
#include <cstdio>
#include <optional>

namespace busbar {

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  bool operator==(const PciAddress&) const = default;
};

// Read domain:bus:device.function, domain:bus:device or bus:device.function, all of them
// hexadecimal. cuda.h (cuDeviceGetByPCIBusId) and nvml.h (nvmlDeviceGetHandleByPciBusId_v2)
// document these forms.
inline std::optional<PciAddress> read_pci_address(const char* text) {
  PciAddress a;
  if (std::sscanf(text, "%8x:%8x:%8x.%8x", &a.domain, &a.bus, &a.device, &a.function) >= 3)
    return a;
  a = {};
  if (std::sscanf(text, "%8x:%8x.%8x", &a.bus, &a.device, &a.function) == 3) return a;
  return std::nullopt;
}

}  // namespace busbar
