#include "transport/session_keys.h"

#include <gtest/gtest.h>

namespace busbar::transport {
namespace {

const Secret kSessionKey{1, 2, 3};

wire::BulkRequest proven_request() {
  wire::BulkRequest request{{7}, 5, {}};
  add_proof(request, derive_key(kSessionKey, kAttachPurpose));
  return request;
}

TEST(SessionKeys, ProofIsValidForItsKeySessionAndCounterOnly) {
  Secret key = derive_key(kSessionKey, kAttachPurpose);
  wire::BulkRequest request = proven_request();
  EXPECT_TRUE(has_valid_proof(request, key));
  EXPECT_FALSE(has_valid_proof(request, derive_key(Secret{1, 2, 4}, kAttachPurpose)));
  request.counter = 6;
  EXPECT_FALSE(has_valid_proof(request, key));
  request = proven_request();
  request.session[0] = 8;
  EXPECT_FALSE(has_valid_proof(request, key));
  request = proven_request();
  request.proof[31] ^= 1;
  EXPECT_FALSE(has_valid_proof(request, key));
}

TEST(SessionKeys, EachPurposeHasAKeyOfItsOwn) {
  Secret bulk = derive_key(kSessionKey, kBulkPurpose);
  EXPECT_FALSE(equal(bulk, derive_key(kSessionKey, kAttachPurpose)));
  EXPECT_FALSE(equal(bulk, kSessionKey));
  EXPECT_TRUE(equal(bulk, derive_key(kSessionKey, kBulkPurpose)));
}

}  // namespace
}  // namespace busbar::transport
