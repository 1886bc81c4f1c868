// Architectures: 800
//
// Tests of draw_token: the tokens are those that the host draws from the same logits.
#include "cuda/sampling/kernel.cuh"
#include "shared/harness.h"

using namespace test;

namespace {

/// A token behind `position` others, and whether it ended the drawing; -1: none was handed on.
template <class Token, class Logit>
int draw(buffer<Logit> &logits, const cuda::draw_rules &how, long position, bool &ended) {
  buffer<int64_t> next(1);
  buffer<int> words(6); // ended, made, record
  next.set(0, -1);
  for (index_t i = 0; i < words.size(); ++i)
    words.set(i, i == 1 ? 2 : i < 2 ? 0 : -1);
  next.upload(), words.upload();
  launch(cuda::draw_token<Token, Logit>({how, logits.device(), long(logits.size()), position,
                                         next.device(), words.device(), words.device() + 2,
                                         words.device() + 1, 2}));
  next.download(), words.download();
  ended = words.get(0) != 0;
  const bool handed = words.get(1) == 3;
  record(handed != ended && words.get(4) == (handed ? int(Token(next.get(0))) : -1) &&
             words.get(2) == -1 && words.get(3) == -1 && words.get(5) == -1,
         "the token is not what is recorded");
  return handed ? words.get(4) : -1;
}

/// How many of `draws` tokens differ: the device's f64 functions may, in their last bit.
template <class Token, class Logit>
void check(index_t vocabulary, float spread, cuda::draw_rules how, int draws = 4) {
  name_case("%ld logits of %d bytes, spread %g, temperature %g top_k %d top_p %g", long(vocabulary),
            int(sizeof(Logit)), double(spread), double(how.temperature), how.top_k,
            double(how.top_p));
  buffer<Logit> logits(vocabulary);
  std::vector<Logit> held(static_cast<size_t>(vocabulary));
  for (index_t i = 0; i < vocabulary; ++i) {
    logits.set(i, compute_t<Logit>(spread * random_float()));
    store_element(&held[size_t(i)], compute_t<Logit>(logits.get(i)));
  }
  logits.upload();
  int same = 0;
  for (int i = 0; i < draws; ++i) {
    how.seed = uint32_t(17 * i + 3);
    bool ended;
    const int token = draw<Token>(logits, how, 5 + i, ended);
    same += !ended && token == tenon::draw_token(held.data(), long(vocabulary), how, 5 + i);
  }
  record(same == draws, "another token than the host's");
}

} // namespace

int main() {
  const cuda::draw_rules greedy = {0, 0, 1, 1, {}, 0};
#if !defined(TENON_INSTANCES)
  check<int64_t, float>(1, 3, greedy, 1);
  check<int64_t, float>(37, 3, greedy);
  check<int, f16>(5000, 20, greedy); // equal ones among them
  check<int64_t, bf16>(3000, 5, greedy);
  check<int64_t, float>(3000, 8, {1, 0, 1, 1, {}, 0}, 12);
  check<int64_t, float>(3000, 8, {0.7f, 40, 1, 1, {}, 0}, 12);
  check<int, f16>(5000, 8, {0.7f, 40, 1, 1, {}, 0}); // equal to the threshold
  check<int64_t, float>(3000, 3, {1.3f, 0, 0.9f, 1, {}, 0}, 12);
  check<int64_t, bf16>(2049, 6, {0.5f, 100, 0.5f, 1, {}, 0}, 12);
  check<int64_t, float>(70, 3, {1, 100, 0, 1, {}, 0});
  // A stop token is the end, and stays it.
  name_case("stop tokens");
  buffer<float> logits(100);
  for (index_t i = 0; i < logits.size(); ++i)
    logits.set(i, i == 42 ? 1.0f : 0.0f);
  logits.upload();
  bool ended;
  record(draw<int>(logits, {0, 0, 1, 1, {7, 42}, 2}, 0, ended) == -1 && ended, "no end");
  record(draw<int>(logits, {0, 0, 1, 1, {7, 41}, 2}, 0, ended) == 42 && !ended, "an end");
  buffer<int> words(3);
  for (index_t i = 0; i < words.size(); ++i)
    words.set(i, i == 0 ? 1 : -1);
  words.upload();
  launch(cuda::draw_token<int, float>({greedy, logits.device(), 100, 0, words.device() + 1,
                                       words.device(), words.device() + 2, words.device() + 2, 0}));
  words.download();
  record(words.get(1) == -1 && words.get(2) == -1, "a token behind the end");
#endif
  check<int64_t, f16>(64, 3, {1, 10, 0.9f, 1, {}, 0}, 1);
  check<int, float>(64, 3, greedy, 1);
  return finish();
}
