// CUDA_VISIBLE_DEVICES: which devices a program sees, and in which order.
//
// The client library and the software GPU share this reader. It follows NVIDIA's programming guide
// and, where the guide is silent, the parser of PyTorch, which mirrors NVIDIA's driver.
//
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

namespace busbar {

using DeviceUuid = std::array<unsigned char, 16>;

// Return the indexes of the devices that `list` names, in its order; all devices if it is null. The
// first entry decides whether all are indexes or all are UUIDs ("GPU-" and the beginning of one).
//
// - An index is read as strtol does: blanks before it and text behind it are ignored.
// - The list ends at the first entry that names no device or more than one. MIG devices, which a
//   partition never is, name none.
// - A device that is named twice leaves no device at all.
std::vector<size_t> visible_devices(const char* list, const std::vector<DeviceUuid>& uuids);

}  // namespace busbar
