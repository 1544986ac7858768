// Lists of NVIDIA's GPUs that are complete, malformed or contradictory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "spawner/nvidia_gpus.h"

using namespace busbar::spawner;

namespace {
constexpr char kName[] = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
constexpr GpuUuid kUuid = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

std::string information(const std::string& uuid, const std::string& minor) {
  return "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 35\nGPU UUID: \t " + uuid +
         "\nBus Location: \t 0000:1a:00.0\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n";
}

class Machine {
 public:
  Machine() { EXPECT_TRUE(mkdtemp(root_.data())); }
  ~Machine() { std::filesystem::remove_all(root_); }
  void add(const std::string& pci, const std::string& text) const {
    std::string folder = root_ + "/proc/driver/nvidia/gpus/" + pci;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/information") << text;
  }
  std::vector<std::string> devices() const { return files_of_gpus({kUuid}, root_).devices; }
  const std::string& root() const { return root_; }

 private:
  std::string root_ = "/tmp/busbar-unit-XXXXXX";
};
}  // namespace

TEST(NvidiaGpus, TheInformationOfTheDriverIsRead) {
  auto found = parse_gpu_information(information(kName, "7"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->uuid, kUuid);
  EXPECT_EQ(found->minor, 7u);
  EXPECT_EQ(gpu_name(kUuid), kName);
}

TEST(NvidiaGpus, MalformedMinorNumbersAreRefused) {
  for (auto* minor : {"", "-1", "+1", "01", "1 2", "0x1", "1.", "255", "256", "4294967296",
                      "99999999999999999999", "one", "/0", "../0"})
    EXPECT_FALSE(parse_gpu_information(information(kName, minor))) << minor;
}

TEST(NvidiaGpus, MalformedUuidsAreRefused) {
  for (const std::string& uuid : std::vector<std::string>{
           "", std::string(kName).replace(4, 8, 8, '?'), "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f",
           "00010203-0405-0607-0809-0a0b0c0d0e0f", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0",
           "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f0", "GPU-0001020300405-0607-0809-0a0b0c0d0e0f",
           "GPU-00010203-0405-0607-0809-0A0B0C0D0E0F"})
    EXPECT_FALSE(parse_gpu_information(information(uuid, "0"))) << uuid;
}

TEST(NvidiaGpus, MissingRepeatedAndLongTextsAreRefused) {
  std::string text = information(kName, "7");
  for (const std::string& malformed :
       {std::string(), std::string("\n\n"), std::string("Device Minor: 7"),
        std::string("GPU UUID: ") + kName, text + "Device Minor: 8\n", text + "GPU UUID: " + kName,
        text + std::string(5000, ' '), std::string(text).insert(text.find("Minor"), 1, '\0')})
    EXPECT_FALSE(parse_gpu_information(malformed)) << malformed;
}

// A changed byte changes the result to nothing or leaves a number that the text shows.
TEST(NvidiaGpus, ChangedTextsAreReadWithoutHarm) {
  for (unsigned seed = 0; seed < 200'000; ++seed) {
    std::minstd_rand random(seed);
    std::string text = information(kName, "7");
    for (unsigned k = random() % 4; k < 4; ++k) text[random() % text.size()] = (char)random();
    text.resize(random() % 8 ? text.size() : random() % text.size());
    if (auto found = parse_gpu_information(text)) {
      EXPECT_LE(found->minor, 254u);
      EXPECT_NE(text.find(gpu_name(found->uuid)), text.npos);
    }
  }
}

TEST(NvidiaGpus, AGpuIsFoundByItsUuid) {
  Machine machine;
  machine.add("0000:1a:00.0", information("GPU-ffffffff-0405-0607-0809-0a0b0c0d0e0f", "0"));
  machine.add("0000:1b:00.0", information(kName, "3"));
  EXPECT_EQ(machine.devices(), std::vector{machine.root() + "/dev/nvidia3"});
}

TEST(NvidiaGpus, ContradictionsShowNothing) {
  Machine twice, shared, misnamed, none;
  twice.add("0000:1a:00.0", information(kName, "0"));
  twice.add("0000:1b:00.0", information(kName, "1"));
  shared.add("0000:1a:00.0", information(kName, "0"));
  shared.add("0000:1b:00.0", information("GPU-ffffffff-0405-0607-0809-0a0b0c0d0e0f", "0"));
  misnamed.add("0000:1a:00", information(kName, "0"));
  for (auto* machine : {&twice, &shared, &misnamed, &none}) {
    EXPECT_TRUE(machine->devices().empty());
    EXPECT_EQ(files_of_gpus({kUuid}, machine->root()).unknown, std::vector{kUuid});
  }
}

TEST(NvidiaGpus, ALinkOutOfTheDevicesShowsNoAttributes) {
  Machine machine;
  machine.add("0000:1a:00.0", information(kName, "0"));
  std::filesystem::create_directories(machine.root() + "/sys/bus/pci/devices");
  std::filesystem::create_directory_symlink("/etc",
                                            machine.root() + "/sys/bus/pci/devices/0000:1a:00.0");
  EXPECT_TRUE(files_of_gpus({kUuid}, machine.root()).attributes.empty());
}
