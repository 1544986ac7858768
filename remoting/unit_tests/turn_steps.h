// A program of the model that works in steps, and how long they take.
#pragma once
#include <algorithm>
#include <vector>

#include "unit_tests/turn_tenants.h"

namespace busbar::model {

// Of nearly equal lengths: otherwise all steps would begin at the same place of a round.
inline Step kernel(Random& random) {
  Step step = kernels(kMillisecond).front();
  step.length += (Nanoseconds)random.below(kMillisecond / 5) - kMillisecond / 10;
  return step;
}

// The times at which the batches of a program end. Two of them are unfinished at any time.
class Steps {
 public:
  explicit Steps(uint64_t kernels) : kernels_(kernels) {}
  Program program() {
    return [this](Session& s) {
      for (; (submitted_ - s.unfinished) / kernels_ > ended_; ++ended_) ends_.push_back(g_now);
      for (; s.unfinished + kernels_ <= 2 * kernels_; submitted_ += kernels_)
        for (uint64_t i = 0; i < kernels_; ++i) s.submit(kernel(random_));
    };
  }
  // How long the steps of a period take, from the shortest to the longest.
  std::vector<Nanoseconds> since(Nanoseconds begin) const {
    std::vector<Nanoseconds> found;
    for (size_t i = 1; i < ends_.size(); ++i)
      if (ends_[i - 1] >= begin) found.push_back(ends_[i] - ends_[i - 1]);
    std::ranges::sort(found);
    return found;
  }

 private:
  const uint64_t kernels_;  // of a batch
  Random random_{45};
  uint64_t submitted_ = 0, ended_ = 0;
  std::vector<Nanoseconds> ends_;
};

inline double quantile(const std::vector<Nanoseconds>& sorted, double q) {
  return (double)sorted.at((size_t)((double)(sorted.size() - 1) * q));
}

}  // namespace busbar::model
