// Defines how kernels load runs of neighbouring elements, hand them to a body one by one, and store
// its results.
//
// A run is up to V elements along dimension Along of the views. Where a view's stride there is
// fixed<1> and the address is aligned, a run is one vector access (or several, beyond 16 bytes);
// fixed<0> is one load; anything else goes element by element, so that every address is correct.
//
// Lists of extents in a kernel's Config are ordinary members: device code cannot refer to static
// members of class type. Single extents may be static.
#ifndef TENON_RUNTIME_CUDA_BASE_OPERANDS_CUH
#define TENON_RUNTIME_CUDA_BASE_OPERANDS_CUH

#include "common/mul_add.h"
#include "cuda/base/multiple.h"
#include "cuda/device.cuh"
#include "cuda/ptx/round_bytes.cuh"
#include "cuda/ptx/words.cuh"

namespace tenon {
namespace cuda {

/// The body of a kernel whose result is stored as it is.
struct identity_body {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x; }
};

/// The K-indexed prologue that leaves its operand alone.
struct no_prologue {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x; }
};

/// Element offset of an iteration point, computed in Index.
template <int I = 0, class Index, int Rank> TENON_FN Index offset(dims<>, const Index (&)[Rank]) {
  return 0;
}
template <int I = 0, class D, class... Rest, class Index, int Rank>
TENON_FN Index offset(const dims<D, Rest...> &strides, const Index (&at)[Rank]) {
  static_assert(I < Rank, "a view has as many strides as the iteration space has dimensions");
  return Index(index_t(strides.head)) * at[I] + offset<I + 1>(strides.tail, at);
}

namespace detail {
using tenon::detail::bare;
using tenon::detail::choose_type;
using tenon::detail::is_same;

template <class Stride> constexpr bool is_unit = is_same<bare<Stride>, fixed<1>>;
template <class Stride> constexpr bool is_broadcast = is_same<bare<Stride>, fixed<0>>;

TENON_FN constexpr bool is_power_of_two(int x) { return x > 0 && (x & (x - 1)) == 0; }

template <int Bytes> TENON_DEVICE bool is_aligned(const void *p) {
  return (uintptr_t(p) & uintptr_t(Bytes - 1)) == 0;
}

/// Copies V elements between registers and memory in the largest words; p is aligned to them.
template <int V, class T> TENON_DEVICE void load_words(T (&to)[V], const T *p) {
  constexpr int bytes = V * int(sizeof(T)), size = bytes < 16 ? bytes : 16;
  using W = typename word<size>::type;
  W w[bytes / size];
  TENON_UNROLL
  for (int i = 0; i < bytes / size; ++i)
    w[i] = reinterpret_cast<const W *>(p)[i];
  memcpy(static_cast<void *>(to), w, sizeof(w));
}
/// The same where `there`, else zero, from global memory. As words: the CUDA compiler takes long
/// over elements of 16 bits that are zero on one way and half a register on the other.
template <int V, class T> TENON_DEVICE void load_words_if(bool there, T (&to)[V], const T *p) {
  constexpr int bytes = V * int(sizeof(T)), size = bytes < 16 ? bytes : 16;
  using W = typename word<size>::type;
  TENON_UNROLL
  for (int i = 0; i < bytes / size; ++i) {
    const W *from = reinterpret_cast<const W *>(p) + i;
    W w = {};
    if constexpr (size == 16)
      w = ptx::global_words::load_if(there, from);
    else if (there)
      w = *from;
    memcpy(static_cast<void *>(to + i * (size / int(sizeof(T)))), &w, size);
  }
}
template <int V, class T> TENON_DEVICE void store_words(T *p, const T (&from)[V]) {
  constexpr int bytes = V * int(sizeof(T)), size = bytes < 16 ? bytes : 16;
  using W = typename word<size>::type;
  W w[bytes / size];
  memcpy(w, static_cast<const void *>(from), sizeof(w));
  TENON_UNROLL
  for (int i = 0; i < bytes / size; ++i)
    reinterpret_cast<W *>(p)[i] = w[i];
}

template <int V, class T> TENON_FN constexpr int word_bytes() {
  return V * int(sizeof(T)) < 16 ? V * int(sizeof(T)) : 16;
}

/// Whether every stride but that of dimension Along is a multiple of N, by its type alone.
template <int Along, int N, int I = 0> TENON_FN constexpr bool known_multiples_of(dims<>) {
  return true;
}
template <int Along, int N, int I = 0, class D, class... Rest>
TENON_FN constexpr bool known_multiples_of(const dims<D, Rest...> &) {
  return (I == Along || is_multiple_of<D, N>)&&known_multiples_of<Along, N, I + 1>(dims<Rest...>{});
}
/// Whether runs of V elements along dimension Along lie on whole words where a view does and the
/// runs' coordinates are multiples of V.
template <int Along, int V, class T, class S>
constexpr bool runs_on_words = known_multiples_of<Along, word_bytes<V, T>() / int(sizeof(T))>(S{});
} // namespace detail

/// raw[i] = p[i * stride] for i < count; the rest of raw is zero. 0 <= count <= V. Nothing is
/// computed from what is loaded, so that the loads of several runs are on their way together.
/// Whole: a run has V elements or none, and its address is aligned.
template <bool Whole = false, int V, class E, class T, class Stride>
TENON_DEVICE void fetch_run(E (&raw)[V], const T *p, Stride stride, int count) {
  constexpr bool one_word = V > 1 && detail::is_unit<Stride> && detail::is_power_of_two(V);
  if constexpr (detail::is_broadcast<Stride>) {
    const E value = count > 0 ? *p : E{};
    TENON_UNROLL
    for (int i = 0; i < V; ++i)
      raw[i] = value;
  } else if constexpr (one_word && Whole) {
    detail::load_words_if(count > 0, raw, const_cast<const E *>(p));
  } else {
    TENON_UNROLL
    for (int i = 0; i < V; ++i)
      raw[i] = E{};
    if constexpr (one_word) {
      if (count >= V && detail::is_aligned<detail::word_bytes<V, E>()>(p)) {
        detail::load_words(raw, const_cast<const E *>(p));
        return;
      }
    }
    TENON_UNROLL
    for (int i = 0; i < V; ++i)
      if (i < count)
        raw[i] = p[i * index_t(stride)];
  }
}

/// x[i] = p[i * stride] for i < count; the rest of x is zero. 1 <= count <= V.
template <int V, class T, class Stride>
TENON_DEVICE void load_run(compute_t<T> (&x)[V], const T *p, Stride stride, int count) {
  detail::bare<T> raw[V];
  fetch_run(raw, p, stride, count);
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    x[i] = load_element(&raw[i]);
}

/// The same of elements that share bytes, one by one.
template <int V, class T, class Stride>
TENON_DEVICE void load_run(compute_t<T> (&x)[V], packed_pointer<T> p, Stride stride, int count) {
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    x[i] = i < count ? load_element(p + i * index_t(stride)) : compute_t<T>{};
}

/// p[i * stride] = x[i] for i < count. Whole: as for fetch_run.
template <bool Whole = false, int V, class T, class Stride>
TENON_DEVICE void store_run(T *p, Stride stride, const compute_t<T> (&x)[V], int count) {
  constexpr bool one_word = V > 1 && detail::is_unit<Stride> && detail::is_power_of_two(V);
  if constexpr (one_word) {
    if ((Whole && count > 0) ||
        (!Whole && count >= V && detail::is_aligned<detail::word_bytes<V, T>()>(p))) {
      T raw[V];
      TENON_UNROLL
      for (int i = 0; i < V; ++i)
        store_element(&raw[i], x[i]);
      detail::store_words(p, raw);
      return;
    }
  }
  if constexpr (!(one_word && Whole)) {
    TENON_UNROLL
    for (int i = 0; i < V; ++i)
      if (i < count)
        store_element(p + i * index_t(stride), x[i]);
  }
}

/// The same of floats that become bytes here.
template <bool Whole = false, int V, class T, class Stride>
TENON_DEVICE void store_run(T *p, Stride stride, const rounded_byte<T> (&x)[V], int count) {
  T bytes[V];
  if constexpr (V % 4 == 0) {
    unsigned words[V / 4];
    TENON_UNROLL
    for (int i = 0; i < V; i += 4)
      words[i / 4] = ptx::round_bytes<T>::pair(
          x[i].value, x[i + 1].value, ptx::round_bytes<T>::pair(x[i + 2].value, x[i + 3].value, 0));
    memcpy(static_cast<void *>(bytes), words, sizeof(bytes));
  } else {
    TENON_UNROLL
    for (int i = 0; i < V; ++i)
      bytes[i] = x[i];
  }
  store_run<Whole>(p, stride, bytes, count);
}

/// The same where elements share bytes: all of a byte's are for one thread.
template <bool = false, int V, class T, class Stride>
TENON_DEVICE void store_run(packed_pointer<T> p, Stride stride, const compute_t<T> (&x)[V],
                            int count) {
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    if (i < count)
      store_element(p + i * index_t(stride), x[i]);
}

// load_operand loads a run of one operand at iteration point `at`; one overload per kind of
// operand.

template <int Along, int V, class T, class S, class Index, int Rank>
TENON_DEVICE void load_operand(compute_t<T> (&x)[V], const view<T, S> &v, const Index (&at)[Rank],
                               int count) {
  load_run(x, v.data + offset(v.strides, at), v.strides.template get<Along>(), count);
}

namespace detail {
template <int Except, int I = 0, class Index, int Rank>
TENON_FN bool in_box(dims<>, dims<>, const Index (&)[Rank]) {
  return true;
}
/// lo <= at < hi in every dimension but Except.
template <int Except, int I = 0, class L, class... Ls, class H, class... Hs, class Index, int Rank>
TENON_FN bool in_box(const dims<L, Ls...> &lo, const dims<H, Hs...> &hi, const Index (&at)[Rank]) {
  const bool rest = in_box<Except, I + 1>(lo.tail, hi.tail, at);
  if constexpr (I == Except)
    return rest;
  else
    return rest && at[I] >= Index(index_t(lo.head)) && at[I] < Index(index_t(hi.head));
}
} // namespace detail

template <int Along, int V, class T, class S, class Lo, class Hi, class Fill, class Index, int Rank>
TENON_DEVICE void load_operand(compute_t<T> (&x)[V], const padded_view<T, S, Lo, Hi, Fill> &v,
                               const Index (&at)[Rank], int count) {
  const Index lo = Index(index_t(v.lo.template get<Along>())) - at[Along];
  const Index hi = Index(index_t(v.hi.template get<Along>())) - at[Along];
  const bool inside = detail::in_box<Along>(v.lo, v.hi, at);
  const auto p = v.data + offset(v.strides, at);
  const auto stride = v.strides.template get<Along>();
  if (inside && lo <= 0 && hi >= count) {
    load_run(x, p, stride, count);
    return;
  }
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    x[i] = inside && i < count && i >= lo && i < hi ? load_element(p + i * index_t(stride))
                                                    : compute_t<T>(v.fill);
}

template <int Along, int V, class T, int D, class Index, int Rank>
TENON_DEVICE void load_operand(T (&x)[V], const index_view<T, D> &, const Index (&at)[Rank], int) {
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    x[i] = T(D == Along ? at[D] + i : at[D]);
}

/// One element of an operand.
template <class View, class Index, int Rank>
TENON_DEVICE auto load_one(const View &v, const Index (&at)[Rank]) {
  compute_t<typename View::element> x[1];
  load_operand<Rank - 1>(x, v, at, 1);
  return x[0];
}

namespace detail {
/// Whether runs of V elements along dimension Along of an operand lie in memory as whole words, by
/// its type but for the address: of what is computed they do not.
template <int Along, int V, class View> constexpr bool lies_in_words = false;
template <int Along, int V, class T, class S>
constexpr bool lies_in_words<Along, V, view<T, S>> =
    packed_bits<T> == 0 && is_power_of_two(V) &&
    is_unit<decltype(S{}.template get<Along>())> &&runs_on_words<Along, V, T, S>;

/// A run that is loaded at once.
template <int V, class View> struct loaded_run {
  compute_t<typename View::element> x[V];

  template <int Along, bool Whole = false, class Index, int Rank>
  TENON_DEVICE void fetch(const View &v, const Index (&at)[Rank], int count) {
    if (count > 0) {
      load_operand<Along>(x, v, at, count);
    } else {
      TENON_UNROLL
      for (int i = 0; i < V; ++i)
        x[i] = {};
    }
  }
  template <class Index, int Rank>
  TENON_DEVICE void fetch_one(int i, const View &v, const Index (&at)[Rank]) {
    x[i] = load_one(v, at);
  }
  TENON_DEVICE void set(int i, compute_t<typename View::element> value) { x[i] = value; }
  TENON_DEVICE auto operator[](int i) const { return x[i]; }
};
/// A run that is fetched first and converted when it is looked at.
template <int V, class View> struct raw_run;
template <int V, class T, class S> struct raw_run<V, view<T, S>> {
  bare<T> raw[V];

  template <int Along, bool Whole = false, class Index, int Rank>
  TENON_DEVICE void fetch(const view<T, S> &v, const Index (&at)[Rank], int count) {
    fetch_run<Whole && runs_on_words<Along, V, T, S>>(raw, v.data + offset(v.strides, at),
                                                      v.strides.template get<Along>(), count);
  }
  /// Element i alone; and one that is not in memory.
  template <class Index, int Rank>
  TENON_DEVICE void fetch_one(int i, const view<T, S> &v, const Index (&at)[Rank]) {
    raw[i] = v.data[offset(v.strides, at)];
  }
  TENON_DEVICE void set(int i, compute_t<T> value) { store_element(&raw[i], value); }
  TENON_DEVICE auto operator[](int i) const { return load_element(&raw[i]); }
};
} // namespace detail

/// A run of one operand, from a plain view fetched first and looked at later. Whole: as for
/// fetch_run.
template <int V, class View> struct fetched_run : detail::loaded_run<V, View> {};
template <int V, class T, class S>
struct fetched_run<V, view<T, S>>
    : detail::choose_type<(packed_bits<T> > 0), detail::loaded_run<V, view<T, S>>,
                          detail::raw_run<V, view<T, S>>>::type {};

namespace detail {
template <int Along, int I = 0> TENON_FN constexpr bool broadcast_but(dims<>) { return true; }
template <int Along, int I = 0, class S, class... Rest>
TENON_FN constexpr bool broadcast_but(const dims<S, Rest...> &strides) {
  return (I == Along || is_broadcast<S>)&&broadcast_but<Along, I + 1>(dims<Rest...>{});
}
/// Whether an operand is the same wherever a run lies beside dimension Along: a bias, a scale.
template <int Along, class View> constexpr bool is_fixed_beside = false;
template <int Along, class T, class... S>
constexpr bool
    is_fixed_beside<Along, view<T, dims<S...>>> = broadcast_but<Along>(dims<bare<S>...>{});
} // namespace detail

/// Which operands of a pack: a kernel whose thread goes through runs in the same place along the
/// dimension loads those that are fixed beside it once.
enum class operand_part { all, fixed, moving };

/// Runs of all operands of a pack: fetched together, converted where they are used.
template <int V, class Views> struct operand_runs;
template <int V> struct operand_runs<V, arguments<>> {
  template <int Along, operand_part Part = operand_part::all, bool Whole = false, class Index,
            int Rank>
  TENON_DEVICE void load(arguments<>, const Index (&)[Rank], int) {}
  template <int Along> TENON_DEVICE void take_fixed(const operand_runs &) {}
  template <class Body, class... Got>
  TENON_DEVICE auto call(const Body &body, int, Got... got) const {
    return body(scalar_lanes{}, got...);
  }
};
template <int V, class View, class... Rest> struct operand_runs<V, arguments<View, Rest...>> {
  fetched_run<V, View> head;
  operand_runs<V, arguments<Rest...>> tail;

  /// Runs of the operands in Part; the others stay what they were. Whole: a run has V elements or
  /// none, it starts at a multiple of V, and views at one of 16 bytes.
  template <int Along, operand_part Part = operand_part::all, bool Whole = false, class Index,
            int Rank>
  TENON_DEVICE void load(const arguments<View, Rest...> &views, const Index (&at)[Rank],
                         int count) {
    if constexpr (Part == operand_part::all ||
                  (Part == operand_part::fixed) == detail::is_fixed_beside<Along, View>)
      head.template fetch<Along, Whole>(views.head, at, count);
    tail.template load<Along, Part, Whole>(views.tail, at, count);
  }
  template <int Along> TENON_DEVICE void take_fixed(const operand_runs &from) {
    if constexpr (detail::is_fixed_beside<Along, View>)
      head = from.head;
    tail.template take_fixed<Along>(from.tail);
  }
  /// body(got..., element i of every run).
  template <class Body, class... Got>
  TENON_DEVICE auto call(const Body &body, int i, Got... got) const {
    return tail.call(body, i, got..., head[i]);
  }
};

/// Runs of all results of a body, one per output view. Result: what the body returns, where it is
/// to be kept so until it is stored.
template <int V, class Views, class Result = void> struct result_runs;
template <int V> struct result_runs<V, arguments<>> {
  TENON_DEVICE void set(int, arguments<>) {}
  template <int Along, bool Whole = false, class Index, int Rank>
  TENON_DEVICE void store(arguments<>, const Index (&)[Rank], int) const {}
};
template <int V, class View, class... Rest, class Result>
struct result_runs<V, arguments<View, Rest...>, Result> {
  using kept = typename detail::choose_type<
      detail::is_same<Result, rounded_byte<detail::bare<typename View::element>>>, Result,
      compute_t<typename View::element>>::type;
  kept head[V];
  result_runs<V, arguments<Rest...>> tail;

  template <class R, class... Rs> TENON_DEVICE void set(int i, const results<R, Rs...> &r) {
    head[i] = compute_t<typename View::element>(r.head);
    tail.set(i, r.tail);
  }
  /// A single result comes bare.
  template <class R> TENON_DEVICE void set(int i, const R &r) { head[i] = kept(r); }
  template <int Along, bool Whole = false, class Index, int Rank>
  TENON_DEVICE void store(const arguments<View, Rest...> &views, const Index (&at)[Rank],
                          int count) const {
    using element = typename View::element;
    using strides = detail::bare<decltype(views.head.strides)>;
    store_run<Whole && detail::runs_on_words<Along, V, element, strides>>(
        views.head.data + offset(views.head.strides, at), views.head.strides.template get<Along>(),
        head, count);
    tail.template store<Along, Whole>(views.tail, at, count);
  }
};

/// outs[at + i] = body(anchor[i]..., operands[i]...) for i < count along dimension Along. Whole: as
/// for operand_runs.
template <int Along, bool Whole = false, int V, class Outs, class Ins, class Body, class Index,
          int Rank, class... Anchors>
TENON_DEVICE void apply_to_runs(const Body &body, const Outs &outs,
                                const operand_runs<V, Ins> &operands, const Index (&at)[Rank],
                                int count, const Anchors (&...anchors)[V]) {
  result_runs<V, Outs, detail::bare<decltype(operands.call(body, 0, anchors[0]...))>> stored;
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    stored.set(i, operands.call(body, i, anchors[i]...));
  stored.template store<Along, Whole>(outs, at, count);
}

/// The same with ins[at + i] as operands.
template <int Along, int V, class Outs, class Ins, class Body, class Index, int Rank,
          class... Anchors>
TENON_DEVICE void apply_body(const Body &body, const Outs &outs, const Ins &ins,
                             const Index (&at)[Rank], int count, const Anchors (&...anchors)[V]) {
  operand_runs<V, Ins> operands;
  operands.template load<Along>(ins, at, count);
  apply_to_runs<Along>(body, outs, operands, at, count, anchors...);
}

/// The first Count coordinates of the linear index `n` in a space, the last of them fastest.
template <int Count, int I = 0, class Space, class Index, int Rank>
TENON_FN Index unravel(const Space &space, Index n, Index (&at)[Rank]) {
  if constexpr (I == Count) {
    return n;
  } else {
    const Index rest = unravel<Count, I + 1>(space.tail, n, at);
    if constexpr (I == 0) {
      at[0] = rest;
      return 0;
    } else {
      const Index extent = Index(index_t(space.head));
      at[I] = rest % extent;
      return rest / extent;
    }
  }
}

/// Product of extents.
TENON_FN constexpr index_t volume(dims<>) { return 1; }
template <class D, class... Rest> TENON_FN constexpr index_t volume(const dims<D, Rest...> &d) {
  return index_t(d.head) * volume(d.tail);
}

/// What a kernel computes offsets in: int, unless its configuration says `large` (a tensor of 2^30
/// elements or more).
namespace detail {
template <class Config, class = void> struct index_of { using type = int; };
template <bool Large> struct choose_index { using type = int; };
template <> struct choose_index<true> { using type = index_t; };
template <class Config> struct index_of<Config, decltype(void(Config::large))> {
  using type = typename choose_index<Config::large>::type;
};
} // namespace detail
template <class Config> using index_of = typename detail::index_of<Config>::type;

/// Blocks of a launch.
struct grid {
  index_t x = 1, y = 1, z = 1;
};

namespace detail {
/// `complete()` of a kernel behind a pointer, by which it derives arguments from the addresses it
/// was given and which returns a status; null where a kernel has none.
template <class K, class = void> struct completion {
  static constexpr int (*function)(void *) = nullptr;
};
template <class K> struct completion<K, decltype(void(&K::complete))> {
  static int function(void *kernel) { return static_cast<K *>(kernel)->complete(); }
};

/// Shared memory of a kernel; none where it does not say.
template <class K, class = void> struct shared_memory {
  static int bytes(const K &) { return 0; }
};
template <class K> struct shared_memory<K, decltype(void(&K::shared_bytes))> {
  static int bytes(const K &kernel) { return kernel.shared_bytes(); }
};

/// What a kernel is written for; all machines where it does not say.
template <class K, class = void> struct machines {
  TENON_FN static constexpr bool contain(target) { return true; }
};
template <class K> struct machines<K, decltype(void(&K::runs_on))> {
  TENON_FN static constexpr bool contain(target t) { return K::runs_on(t); }
};

/// Whether a kernel does something before the dependency wait.
template <class K, class = void> constexpr bool has_prefetch = false;
template <class K> constexpr bool has_prefetch<K, decltype(void(&K::prefetch))> = true;

/// How many neighbouring blocks of a kernel are one cluster.
template <class K, class = void> constexpr int cluster_of = 1;
template <class K>
constexpr int cluster_of<K, decltype(void(K::cluster_blocks))> = K::cluster_blocks;
} // namespace detail

} // namespace cuda
} // namespace tenon

#endif
