// Defines `non_max_suppression_sorted`: what non_max_suppression (cuda/suppression/kernel.cuh)
// computes, for many boxes of which many stay.
//
// Algorithm: suppression_begin gives every score above the limit a key, and a sort
// (cuda/sort/radix_sort.cuh) by keys, then by rows of scores, brings each row's candidates in
// order. non_max_suppression_sorted cuts the rows into tiles of neighbours, one for a block and a
// candidate of it for each thread. A tile notes which of its candidates overlap, follows the list
// of the boxes that the tiles before it take, strikes off what overlaps those, and once all of them
// are done settles its own: a candidate is taken when none is left before it that overlaps it and
// may still be taken. Then it adds what it took to the list. Blocks draw their tiles from a
// counter, those of all rows in turn: whom a block waits for is running or done, in whatever order
// blocks start.
//
// Views and numbers: those of non_max_suppression.
#ifndef TENON_RUNTIME_CUDA_SUPPRESSION_SORTED_CUH
#define TENON_RUNTIME_CUDA_SUPPRESSION_SORTED_CUH

#include "cuda/sort/ordered_key.cuh"
#include "cuda/sort/radix_sort.cuh"
#include "cuda/suppression/kernel.cuh"

namespace tenon {
namespace cuda {

/// Scratch memory of up to `rows` rows of which up to `taken` boxes each are taken.
struct suppression_space {
  word16 *boxes; // those taken, row after row
  int *counters; // the next tile; of each row: tiles that are done, boxes that are taken

  TENON_FN static suppression_space over(unsigned char *scratch, index_t rows, index_t taken) {
    word16 *const boxes = reinterpret_cast<word16 *>(scratch);
    return {boxes, reinterpret_cast<int *>(boxes + rows * taken)};
  }
  TENON_FN static constexpr int numbers(int rows) { return 1 + 2 * rows; }
  TENON_FN int *next() const { return counters; }
  TENON_FN int *done(int row) const { return counters + 1 + 2 * row; }
  TENON_FN int *taken(int row) const { return counters + 2 + 2 * row; }
};

namespace detail {
/// Behind the keys of all scores.
constexpr unsigned no_candidate = 0xffffffffu;
TENON_DEVICE word16 word_of(const box &b) {
  word16 w;
  memcpy(&w, &b, sizeof(w));
  return w;
}
TENON_DEVICE box box_of(const word16 &w) {
  box b;
  memcpy(&b, &w, sizeof(b));
  return b;
}
} // namespace detail

/// How many items are sorted.
template <class Config> TENON_FN index_t suppression_scores(const Config &cfg) {
  return index_t(cfg.batch) * index_t(cfg.classes) * index_t(cfg.n);
}

template <class Config, class Boxes, class Scores, class Out>
struct suppression_begin_kernel : suppression<Config, Boxes, Scores, Out> {
  suppression_space space;
  sort_space sort;

  static constexpr int threads = 256, blocks_per_sm = 1;

  grid blocks() const {
    const int results = this->rows() * this->k(), numbers = space.numbers(this->rows());
    return {ceil_div(index_t(max_of(max_of(sort.n, results), numbers)), index_t(threads)), 1, 1};
  }
  TENON_DEVICE void run(unsigned char *) const {
    const int i = block_x() * threads + thread(), n = this->n(), k = this->k();
    if (i < sort.n) {
      const float score = this->score(i / n, i % n);
      sort.lists[0][i] = {score > this->least ? ~ordered_key(score) : detail::no_candidate, i};
    }
    if (i < this->rows() * k)
      this->store(i / k, i % k, -1);
    if (i < space.numbers(this->rows()))
      space.counters[i] = 0;
  }
};

template <class Config, class Boxes, class Scores, class Out>
suppression_begin_kernel<Config, Boxes, Scores, Out>
suppression_begin(Config cfg, Boxes boxes, Scores scores, Out out, float iou, float least,
                  suppression_space space, sort_space sort) {
  return {{cfg, boxes, scores, out, iou, least}, space, sort};
}

/// Shared memory: boxes, states, two numbers, then what the threads add up.
template <class Config, class Boxes, class Scores, class Out>
struct non_max_suppression_sorted_kernel : suppression<Config, Boxes, Scores, Out> {
  suppression_space space;
  const sort_item *sorted;

  static constexpr int threads = 256, blocks_per_sm = 1; // a tile has as many candidates
  static constexpr int words = threads / 32;
  using group = lane_group<threads, threads, false>;

  int shared_bytes() const {
    return threads * int(sizeof(word16) + sizeof(int)) + 2 * int(sizeof(int)) +
           group::template shared_bytes<float>();
  }
  grid blocks() const {
    return {index_t(this->rows()) * ceil_div(index_t(this->n()), index_t(threads)), 1, 1};
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    word16 *const tile = reinterpret_cast<word16 *>(shared);
    int *const states = reinterpret_cast<int *>(tile + threads), *const numbers = states + threads;
    unsigned char *const sums = reinterpret_cast<unsigned char *>(numbers + 2);
    const int n = this->n(), k = this->k();

    if (thread() == 0)
      numbers[0] = atomic_add(space.next(), 1);
    sync_block();
    const int row = numbers[0] % this->rows(), number = numbers[0] / this->rows();
    const int mine = number * threads + thread();
    const sort_item *const list = sorted + index_t(row) * n;
    if (list[number * threads].key == detail::no_candidate)
      return; // as are all behind it
    const sort_item item = mine < n ? list[mine] : sort_item{detail::no_candidate, 0};
    bool open = item.key != detail::no_candidate;
    const int index = open ? item.index - row * n : 0;
    const box own = this->read(row, index);
    tile[thread()] = detail::word_of(own);
    sync_block();

    // Bit i of the words: candidate i of the tile comes before this thread's and overlaps it.
    unsigned before[words];
    TENON_UNROLL
    for (int w = 0; w < words; ++w) {
      before[w] = 0;
      for (int i = w * 32; open && i < min_of(w * 32 + 32, thread()); ++i)
        if (overlap(own, detail::box_of(tile[i])) > this->iou)
          before[w] |= 1u << (i - w * 32);
    }

    word16 *const list_of_taken = space.boxes + index_t(row) * min_of(n, k);
    int seen = 0;
    for (bool last = false; !last;) {
      sync_block(); // the numbers and the tile have been read
      if (thread() == 0) {
        numbers[0] = atomic_add(space.done(row), 0);
        fence();
        numbers[1] = atomic_add(space.taken(row), 0);
        fence();
      }
      sync_block();
      last = numbers[0] == number;
      const int taken = numbers[1];
      if (taken >= k)
        return;
      for (; seen < taken; seen += threads) {
        const int part = min_of(threads, taken - seen);
        if (thread() < part)
          tile[thread()] = load_uncached(list_of_taken + seen + thread());
        sync_block();
        for (int i = 0; open && i < part; ++i)
          open = !(overlap(own, detail::box_of(tile[i])) > this->iou);
        sync_block();
      }
      seen = taken;
    }

    states[thread()] = open ? state_open : state_struck;
    sync_block();
    for (float left = 1; left > 0;) {
      const int decided = open ? decide(before, states) : state_open;
      left = group::combine(open && decided == state_open ? 1.0f : 0.0f, sums,
                            [](float a, float b) { return a + b; });
      if (open && decided != state_open) {
        states[thread()] = decided;
        open = false;
      }
      sync_block();
    }

    int place = seen, all = seen; // of this thread's candidate if it is taken; taken in all
    for (int i = 0; i < threads; ++i) {
      place += i < thread() && states[i] == state_taken;
      all += states[i] == state_taken;
    }
    if (states[thread()] == state_taken && place < k) {
      list_of_taken[place] = detail::word_of(own);
      this->store(row, place, index);
    }
    sync_block();
    if (thread() == 0) {
      fence();
      atomic_add(space.taken(row), min_of(all, k) - seen);
      fence();
      atomic_add(space.done(row), 1);
    }
  }

private:
  static constexpr int state_open = 0, state_taken = 1, state_struck = 2;

  /// What becomes of a candidate by the states of those before it that it overlaps; those that are
  /// struck off leave `before`.
  TENON_DEVICE static int decide(unsigned (&before)[words], const int *states) {
    int decided = state_taken;
    TENON_UNROLL
    for (int w = 0; w < words; ++w)
      for (int i = 0; i < 32 && before[w] >> i != 0 && decided != state_struck; ++i) {
        if ((before[w] >> i & 1) == 0)
          continue;
        const int state = states[w * 32 + i];
        if (state == state_taken)
          decided = state_struck;
        else if (state == state_open)
          decided = state_open;
        else
          before[w] &= ~(1u << i);
      }
    return decided;
  }
};

template <class Config, class Boxes, class Scores, class Out>
non_max_suppression_sorted_kernel<Config, Boxes, Scores, Out>
non_max_suppression_sorted(Config cfg, Boxes boxes, Scores scores, Out out, float iou, float least,
                           suppression_space space, const sort_item *sorted) {
  return {{cfg, boxes, scores, out, iou, least}, space, sorted};
}

} // namespace cuda
} // namespace tenon

#endif
