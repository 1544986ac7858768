#include "visible_devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>

namespace busbar {

namespace {
constexpr char kUuidPrefix[] = "GPU-";

std::string uuid_text(const DeviceUuid& b) {
  char text[48];
  std::snprintf(text, sizeof text,
                "%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                kUuidPrefix, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
                b[11], b[12], b[13], b[14], b[15]);
  return text;
}

// Return the only device whose UUID begins so.
std::optional<size_t> device_of_uuid(const std::string& entry,
                                     const std::vector<DeviceUuid>& uuids) {
  auto begins = [&](const DeviceUuid& uuid) {
    return uuid_text(uuid).starts_with(entry);
  };
  auto found = std::ranges::find_if(uuids, begins);
  if (!entry.starts_with(kUuidPrefix) || found == uuids.end()) return std::nullopt;
  if (std::find_if(found + 1, uuids.end(), begins) != uuids.end()) return std::nullopt;
  return (size_t)(found - uuids.begin());
}

std::optional<size_t> device_of_index(const std::string& entry, size_t devices) {
  char* end = nullptr;
  long index = std::strtol(entry.c_str(), &end, 10);
  bool valid = end != entry.c_str() && index >= 0 && (size_t)index < devices;
  return valid ? std::optional((size_t)index) : std::nullopt;
}
}  // namespace

std::vector<size_t> visible_devices(const char* list, const std::vector<DeviceUuid>& uuids) {
  std::vector<size_t> visible;
  if (!list) {
    visible.resize(uuids.size());
    std::iota(visible.begin(), visible.end(), 0);
    return visible;
  }
  std::string rest = list;
  bool names_uuids = rest.starts_with(kUuidPrefix);
  for (bool more = true; more;) {
    size_t comma = rest.find(',');
    std::string entry = rest.substr(0, comma);
    more = comma != std::string::npos;
    if (more) rest.erase(0, comma + 1);
    auto device = names_uuids ? device_of_uuid(entry, uuids) : device_of_index(entry, uuids.size());
    if (!device) break;
    if (std::ranges::find(visible, *device) != visible.end()) return {};
    visible.push_back(*device);
  }
  return visible;
}

}  // namespace busbar
