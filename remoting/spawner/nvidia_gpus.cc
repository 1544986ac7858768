#include "spawner/nvidia_gpus.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "control/hex.h"

namespace busbar::spawner {

namespace {
constexpr size_t kMaxInformationBytes = 4096;
constexpr unsigned kMaxMinor = 254;  // 255 is /dev/nvidiactl
constexpr std::string_view kUuidField = "GPU UUID", kMinorField = "Device Minor";
constexpr std::string_view kBlanks = " \t";
// Hexadecimal digits are written as 'x'.
constexpr std::string_view kUuidForm = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
constexpr std::string_view kPciForm = "xxxx:xx:xx.x", kLongPciForm = "xxxxxxxx:xx:xx.x";
// Read-only facts. Not `resource*` and `rom`, which are the memory of the device, nor the files
// that act on it: remove, rescan, reset, driver_override, enable and those of SR-IOV.
constexpr const char* kAttributes[] = {
    "vendor",         "device",         "subsystem_vendor",   "subsystem_device",  "class",
    "revision",       "config",         "numa_node",          "local_cpus",        "local_cpulist",
    "max_link_speed", "max_link_width", "current_link_speed", "current_link_width"};

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool has_form(std::string_view text, std::string_view form) {
  return std::ranges::equal(text, form,
                            [](char c, char f) { return f == 'x' ? is_hex(c) : c == f; });
}

std::optional<GpuUuid> parse_uuid(std::string_view text) {
  if (!has_form(text, kUuidForm)) return {};
  std::string digits;
  std::ranges::copy_if(text.substr(4), std::back_inserter(digits), is_hex);
  GpuUuid uuid;
  const char* at = digits.data();
  for (auto& byte : uuid) {
    std::from_chars(at, at + 2, byte, 16);
    at += 2;
  }
  return uuid;
}

std::optional<unsigned> parse_minor(std::string_view text) {
  unsigned minor = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minor);
  bool valid = error == std::errc() && end == text.data() + text.size() && minor <= kMaxMinor;
  return valid && text == std::to_string(minor) ? std::optional(minor) : std::nullopt;
}

std::string_view without_blanks(std::string_view text) {
  size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Returns the value in the only line with this name, or an empty text.
std::string_view field(std::string_view text, std::string_view name) {
  std::string_view value;
  size_t found = 0;
  for (size_t end; !text.empty(); text.remove_prefix(std::min(end, text.size() - 1) + 1)) {
    end = text.find('\n');
    std::string_view line = text.substr(0, end);
    size_t colon = line.find(':');
    if (colon == line.npos || without_blanks(line.substr(0, colon)) != name) continue;
    value = without_blanks(line.substr(colon + 1));
    ++found;
  }
  return found == 1 ? value : std::string_view();
}

struct Gpu {
  std::string pci;  // address of the PCI device
  GpuInformation information;
};

std::string read_start(const std::string& path) {
  std::string text(kMaxInformationBytes + 1, 0);
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), (std::streamsize)text.size());
  text.resize((size_t)file.gcount());
  return text;
}

std::vector<Gpu> list_gpus(const std::string& root) {
  std::vector<Gpu> gpus;
  std::error_code none;
  for (auto& entry : std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", none)) {
    std::string pci = entry.path().filename();
    if (!has_form(pci, kPciForm) && !has_form(pci, kLongPciForm)) continue;
    if (auto found = parse_gpu_information(read_start(entry.path() / "information")))
      gpus.push_back({pci, *found});
  }
  return gpus;
}

// Returns the only GPU with this UUID. Nothing if another one has its minor number.
const Gpu* find_gpu(const std::vector<Gpu>& gpus, const GpuUuid& uuid) {
  auto has_uuid = [&](auto& gpu) {
    return gpu.information.uuid == uuid;
  };
  auto found = std::ranges::find_if(gpus, has_uuid);
  if (found == gpus.end() || std::ranges::count_if(gpus, has_uuid) != 1) return nullptr;
  auto has_minor = [&](auto& gpu) {
    return gpu.information.minor == found->information.minor;
  };
  return std::ranges::count_if(gpus, has_minor) == 1 ? &*found : nullptr;
}

// The link in /sys/bus/pci leads to the folder of the device, which the cage makes for its files.
void append_attributes(const std::string& pci, const std::string& root,
                       std::vector<std::string>& attributes) {
  std::string link = root + "/sys/bus/pci/devices/" + pci;
  std::error_code error;
  std::string folder = std::filesystem::canonical(link, error);
  if (error || !folder.starts_with(root + "/sys/devices/")) return;
  attributes.push_back(link);
  for (auto* name : kAttributes) attributes.push_back(folder + "/" + name);
}
}  // namespace

std::optional<GpuInformation> parse_gpu_information(std::string_view text) {
  if (text.size() > kMaxInformationBytes) return {};
  auto uuid = parse_uuid(field(text, kUuidField));
  auto minor = parse_minor(field(text, kMinorField));
  return uuid && minor ? std::optional(GpuInformation{*uuid, *minor}) : std::nullopt;
}

GpuFiles files_of_gpus(const std::vector<GpuUuid>& gpus, const std::string& root) {
  GpuFiles files;
  std::vector<Gpu> known = list_gpus(root);
  for (auto& uuid : gpus) {
    const Gpu* gpu = find_gpu(known, uuid);
    if (!gpu) {
      files.unknown.push_back(uuid);
      continue;
    }
    files.devices.push_back(root + "/dev/nvidia" + std::to_string(gpu->information.minor));
    append_attributes(gpu->pci, root, files.attributes);
  }
  return files;
}

std::string gpu_name(const GpuUuid& uuid) {
  std::string digits = control::hex(uuid.data(), uuid.size()), name;
  auto next = digits.begin();
  for (char f : kUuidForm) name += f == 'x' ? *next++ : f;
  return name;
}

}  // namespace busbar::spawner
