// Result of a record that was given to its handler.
#pragma once

namespace busbar::server {

enum class Outcome {
  done,       // the record has taken effect
  waits,      // a resource is missing; the record runs again, from Record::submitted_bytes on
  malformed,  // the session ends
};

inline Outcome well_formed(bool holds) {
  return holds ? Outcome::done : Outcome::malformed;
}

}  // namespace busbar::server
