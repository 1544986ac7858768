// What a test says of a card's health: a small file beside the device's own, read anew at every
// question.
//
// `gpuN.conditions` has one word and one number a line: temperature_celsius, power_milliwatts, xid
// (with each change of the file an event), ecc_corrected, ecc_uncorrected, removed (1: the card has
// fallen off the bus). What is not named is made from the real load.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace softgpu {

struct Conditions {
  std::map<std::string, uint64_t> values;
  uint64_t changed = 0;  // nanoseconds of the file's last change; 0 without a file
  bool removed() const { return value("removed", 0) != 0; }
  uint64_t value(const std::string& name, uint64_t otherwise) const {
    auto it = values.find(name);
    return it == values.end() ? otherwise : it->second;
  }
};

Conditions conditions_of(int device);

}  // namespace softgpu
