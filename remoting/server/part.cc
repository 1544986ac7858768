// Parts of a payload that does not fit in one record.
#include "server/handlers.h"
#include "server/pipeline.h"

namespace busbar::server {

// bytes of the payload of a later record
bool handlers::part(Pipeline& p, const Record& r) {
  return p.parts.add(r.payload, r.payload_bytes());
}

}  // namespace busbar::server
