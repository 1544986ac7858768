#include "server/submit.h"

#include "server/operations.h"

namespace busbar::server {

namespace {

Outcome run_handler(Pipeline& p, Record& r, StreamState& st) {
  if (r.operation->stream) return r.operation->stream(p, r, st);
  wire::Decoder in = r.decoder();
  std::string no_results;
  p.fences.check(r.operation->call(p.session, in, st.handle, no_results), st);
  return Outcome::done;
}

Outcome submit_to_stream(Pipeline& p, Record& r) {
  StreamState* st = p.session.stream(r.head.stream);
  if (!st) return Outcome::done;
  p.session.use_context(st->context);
  p.fences.begin_work(*st, r.position);
  Outcome outcome = run_handler(p, r, *st);
  if (outcome == Outcome::done) p.fences.end_work(*st, r.position);
  return outcome;
}

Outcome run_barrier(Pipeline& p, const Record& r) {
  p.session.use_context(r.head.context);
  if (r.operation->pipeline) return well_formed(r.operation->pipeline(p, r));
  r.operation->session(p.session, r.decoder());
  return Outcome::done;
}

}  // namespace

Outcome submit(Pipeline& p, Record& r) {
  return r.operation->order == wire::Order::stream ? submit_to_stream(p, r) : run_barrier(p, r);
}

}  // namespace busbar::server
