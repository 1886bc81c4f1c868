// Implements SHA-256 (FIPS 180-4): LLVM's, or four rounds at a time on x86 processors that can.
#include "frontend/Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <cstring>
#endif

namespace tenon::frontend {

#if defined(__x86_64__)
namespace {

alignas(16) constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t kBlock = 64;

bool hasInstructions() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29)) != 0;
}

/// Takes `blocks` blocks into the state a, b, … h.
__attribute__((target("sha,sse4.1"))) void compress(uint32_t *state, const uint8_t *data,
                                                    size_t blocks) {
  const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto *halves = reinterpret_cast<__m128i *>(state);
  // The instructions want a, b, e, f and c, d, g, h side by side, the first highest.
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
  for (; blocks > 0; --blocks, data += kBlock) {
    const __m128i abefBefore = abef, cdghBefore = cdgh;
    __m128i w[4];
    for (int k = 0; k < 4; ++k)
      w[k] =
          _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(data) + k), bigEndian);
    for (int k = 0; k < 16; ++k) {
      __m128i &now = w[k % 4];
      const __m128i next = w[(k + 1) % 4], third = w[(k + 2) % 4], last = w[(k + 3) % 4];
      const __m128i sum =
          _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i *>(kRounds) + k));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      now = _mm_sha256msg2_epu32(
          _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4)), last);
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  low = _mm_shuffle_epi32(abef, 0x1b);
  high = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(halves, _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(high, low, 8));
}

std::string fastSha256(llvm::StringRef bytes) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  const size_t whole = bytes.size() / kBlock, rest = bytes.size() % kBlock;
  compress(state, data, whole);
  // The rest, a one, zeros, and the number of bits.
  uint8_t end[2 * kBlock] = {};
  const size_t blocks = rest < kBlock - 8 ? 1 : 2;
  if (rest)
    memcpy(end, data + whole * kBlock, rest);
  end[rest] = 0x80;
  const uint64_t bits = uint64_t(bytes.size()) * 8;
  for (size_t k = 0; k < 8; ++k)
    end[blocks * kBlock - 1 - k] = uint8_t(bits >> (8 * k));
  compress(state, end, blocks);
  uint8_t digest[32];
  for (size_t k = 0; k < 32; ++k)
    digest[k] = uint8_t(state[k / 4] >> (24 - 8 * (k % 4)));
  return llvm::toHex(llvm::makeArrayRef(digest), /*LowerCase=*/true);
}

} // namespace
#endif

std::string sha256(llvm::StringRef bytes) {
#if defined(__x86_64__)
  static const bool kFast = hasInstructions();
  if (kFast)
    return fastSha256(bytes);
#endif
  llvm::SHA256 hash;
  hash.update(bytes);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace tenon::frontend
