// The standard headers that most sources include. CMakeLists.txt precompiles them with headers of
// each target. A source includes what it uses all the same: .ci/checks/clang-tidy.py reads it
// without this file.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
