// Health of a device as tests set it, in the file gpuN.conditions beside the device file. It is
// read at every query.
//
// Each line has a name and a number: temperature_celsius, power_milliwatts, xid (each change of the
// file is an event), ecc_corrected, ecc_uncorrected, removed (1: the card has fallen off the bus).
// Values that the file does not name are derived from the load.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace softgpu {

struct Conditions {
  std::map<std::string, uint64_t> values;
  uint64_t changed = 0;  // time of the last change, in nanoseconds; 0: no file
  bool removed() const { return value("removed", 0) != 0; }
  uint64_t value(const std::string& name, uint64_t fallback) const {
    auto it = values.find(name);
    return it == values.end() ? fallback : it->second;
  }
};

Conditions conditions_of(int device);

}  // namespace softgpu
