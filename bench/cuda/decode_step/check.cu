// Checks every kernel of a decoder's step against fp64 on the host, each from what lies on the
// device before it: fresh random operands, poisoned results, ragged sizes, every variant, launched
// both ways; then whole steps in a row. For compute-sanitizer, too. usage: check [seed [small]]
#include "../gemv/pack.h"
#include "step.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace study;

namespace {

void check(cudaError_t e, const char *what) {
  if (e != cudaSuccess)
    printf("%s: %s\n", what, cudaGetErrorString(e)), exit(1);
}
std::vector<void *> allocated;
void *to_device(const void *from, size_t bytes) {
  void *to;
  check(cudaMalloc(&to, bytes + 16), "memory");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy");
  allocated.push_back(to);
  return to;
}
template <class T> std::vector<T> from_device(const void *from, size_t count) {
  check(cudaDeviceSynchronize(), "kernels");
  std::vector<T> v(count);
  check(cudaMemcpy(v.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "copy");
  return v;
}
std::vector<double> halves(const void *from, size_t count) {
  const auto bits = from_device<unsigned short>(from, count);
  std::vector<double> v(count);
  for (size_t i = 0; i < count; ++i)
    v[i] = value_of(bits[i]);
  return v;
}
std::vector<double> floats(const void *from, size_t count) {
  const auto of = from_device<float>(from, count);
  return {of.begin(), of.end()};
}

int right = 0, wrong = 0;
void compare(const std::vector<double> &is, const std::vector<double> &want, double most,
             const char *what, const char *variant) {
  double off = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i)
    off += (is[i] - want[i]) * (is[i] - want[i]), norm += want[i] * want[i];
  const double error = std::sqrt(off / norm);
  if (error < most) // false for what is no number
    ++right;
  else
    ++wrong, printf("WRONG: %s, %s: %.2e\n", what, variant, error);
}

struct sizes {
  int layers, hidden, heads, kv_heads, d, inner, vocabulary, length, capacity;
};
struct layer_values {
  packed qkv, project, gate_up, down;
  std::vector<double> attend_gamma, mlp_gamma;
};

std::vector<double> times_rows(const packed &w, const std::vector<double> &x, size_t n) {
  std::vector<double> y(n, 0.0);
  for (size_t o = 0; o < n; ++o)
    for (size_t i = 0; i < x.size(); ++i)
      y[o] += w.value[o * x.size() + i] * x[i];
  return y;
}
std::vector<double> normed(const std::vector<double> &x, const std::vector<double> &gamma,
                           double epsilon) {
  double squares = 0;
  for (double v : x)
    squares += v * v;
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] * gamma[i] / std::sqrt(squares / double(x.size()) + epsilon);
  return y;
}

class subject {
public:
  subject(int kind, const sizes &of, std::mt19937 &random) : s(of), kind(kind) {
    std::normal_distribution<float> normal(0, 1);
    const auto weights = [&](int n, int k, const void *&w, const void *&scale) {
      packed p = pack(kind, n, k, random, (kind ? 2.0f : 1.0f) / std::sqrt(float(k)));
      w = to_device(p.w.data(), p.w.size()), scale = to_device(p.scale.data(), p.scale.size() * 2);
      return p;
    };
    const auto gamma = [&](std::vector<double> &values) {
      std::vector<unsigned short> bits(size_t(s.hidden));
      for (auto &b : bits)
        values.push_back(value_of(b = bits_of(1 + 0.3f * normal(random))));
      return to_device(bits.data(), bits.size() * 2);
    };
    const size_t cache = size_t(s.kv_heads) * size_t(s.capacity) * size_t(s.d);
    for (int i = 0; i < s.layers; ++i) {
      step_layer l{};
      layer_values v;
      v.qkv = weights((s.heads + 2 * s.kv_heads) * s.d, s.hidden, l.qkv, l.qkv_scale);
      v.project = weights(s.hidden, s.heads * s.d, l.project, l.project_scale);
      v.gate_up = weights(2 * s.inner, s.hidden, l.gate_up, l.gate_up_scale);
      v.down = weights(s.hidden, s.inner, l.down, l.down_scale);
      l.attend_gamma = gamma(v.attend_gamma), l.mlp_gamma = gamma(v.mlp_gamma);
      std::vector<unsigned short> rows(cache);
      for (void **to : {&l.k, &l.v}) {
        for (size_t j = 0; j < cache; ++j) // keys beyond the length are no numbers
          rows[j] = int(j / size_t(s.d)) % s.capacity < s.length ? bits_of(normal(random)) : 0x7e00;
        *to = to_device(rows.data(), cache * 2);
      }
      layers.push_back(l), values.push_back(v);
    }
    head = weights(s.vocabulary, s.hidden, m.head, m.head_scale);
    m.gamma = gamma(last_gamma);
    std::vector<float> cos, sin;
    for (int row = 0; row < s.capacity; ++row)
      for (int i = 0; i < s.d / 2; ++i) {
        const double angle = row * std::pow(500000.0, -2.0 * i / s.d);
        cos.push_back(float(std::cos(angle))), sin.push_back(float(std::sin(angle)));
      }
    m.cos = static_cast<float *>(to_device(cos.data(), cos.size() * 4));
    m.sin = static_cast<float *>(to_device(sin.data(), sin.size() * 4));
    const std::vector<unsigned char> poison(
        size_t(s.hidden + s.inner + s.vocabulary + (s.heads + 2 * s.kv_heads) * s.d) * 4 +
            4 * size_t(s.capacity),
        0xff);
    const auto room = [&](size_t bytes) { return to_device(poison.data(), bytes); };
    m.layers = layers.data(), m.count = s.layers;
    m.logits = room(size_t(s.vocabulary) * 2);
    m.tokens = static_cast<int *>(room(size_t(s.capacity) * 4));
    const unsigned long long none = 0;
    m.best = static_cast<unsigned long long *>(const_cast<void *>(to_device(&none, 8)));
    first_token = int(random() % unsigned(s.vocabulary));
    m.token = static_cast<int *>(to_device(&first_token, 4));
    m.length = static_cast<int *>(to_device(&s.length, 4));
    m.hidden = s.hidden, m.heads = s.heads, m.kv_heads = s.kv_heads, m.d = s.d,
    m.inner_size = s.inner;
    m.vocabulary = s.vocabulary, m.capacity = s.capacity, m.epsilon = 1e-5f;
    results_size = size_t(step_results(&m, 5 * s.layers + 2));
    m.results = to_device(std::vector<unsigned char>(results_size, 0xff).data(), results_size);
  }
  ~subject() {
    for (void *p : allocated)
      check(cudaFree(p), "free");
    allocated.clear();
  }

  /// One step, kernel by kernel.
  void check_kernels(const step_options &o, const char *name) {
    const int length = from_device<int>(m.length, 1)[0], token = from_device<int>(m.token, 1)[0];
    const size_t hidden = size_t(s.hidden), q_size = size_t(s.heads * s.d),
                 kv_size = size_t(s.kv_heads * s.d);
    int at = 0;
    poison(m.results, results_size);
    run(o, at++, name);
    std::vector<double> row(head.value.begin() + long(token * s.hidden),
                            head.value.begin() + long((token + 1) * s.hidden));
    compare(floats(result(0), hidden), row, 1e-6, "embed", name);
    for (int i = 0; i < s.layers; ++i) {
      const layer_values &v = values[size_t(i)];
      const auto before = floats(result(at - 1), hidden);
      run(o, at, name);
      compare(halves(result(at++), q_size + 2 * kv_size),
              times_rows(v.qkv, normed(before, v.attend_gamma, 1e-5), q_size + 2 * kv_size), 1.5e-3,
              "qkv", name);
      check_attend(o, i, length, at++, name);
      auto want = times_rows(v.project, halves(result(at - 1), q_size), hidden);
      for (size_t j = 0; j < hidden; ++j)
        want[j] += before[j];
      run(o, at, name);
      const auto middle = floats(result(at++), hidden);
      compare(middle, want, 5e-5, "project", name);
      run(o, at, name);
      const auto both =
          times_rows(v.gate_up, normed(middle, v.mlp_gamma, 1e-5), size_t(2 * s.inner));
      std::vector<double> inner;
      for (size_t j = 0; j < size_t(s.inner); ++j)
        inner.push_back(both[2 * j] / (1 + std::exp(-both[2 * j])) * both[2 * j + 1]);
      const auto is = halves(result(at++), size_t(s.inner));
      compare(is, inner, 2e-3, "gate_up", name);
      want = times_rows(v.down, is, hidden);
      for (size_t j = 0; j < hidden; ++j)
        want[j] += middle[j];
      run(o, at, name);
      compare(floats(result(at++), hidden), want, 5e-5, "down", name);
    }
    poison(m.logits, size_t(s.vocabulary) * 2);
    const auto want = times_rows(head, normed(floats(result(at - 1), hidden), last_gamma, 1e-5),
                                 size_t(s.vocabulary));
    run(o, at++, name);
    compare(halves(m.logits, size_t(s.vocabulary)), want, 1.5e-3, "head", name);
    run(o, at++, name);
    const int next = from_device<int>(m.token, 1)[0];
    double largest = -1e30;
    for (double w : want)
      largest = std::max(largest, w);
    const bool fits = next >= 0 && next < s.vocabulary &&
                      want[size_t(next)] > largest - 1e-2 * std::fabs(largest);
    const bool ends = from_device<int>(m.length, 1)[0] == length + 1 &&
                      from_device<unsigned long long>(m.best, 1)[0] == 0 &&
                      from_device<int>(m.tokens + length, 1)[0] == next;
    fits &&ends ? ++right : (++wrong, printf("WRONG: step, %s: token %d\n", name, next));
  }
  /// Steps in a row from the beginning.
  std::vector<int> steps(const step_options &o, int count, const char *name) {
    check(cudaMemcpy(m.token, &first_token, 4, cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(m.length, &s.length, 4, cudaMemcpyHostToDevice), "copy");
    for (int i = 0; i < count; ++i)
      check(cudaError_t(step_launch(&m, &o, 0, 5 * s.layers + 3, nullptr)), name);
    if (step_variant_polls(o.kind, o.variant) && count > 0) {
      bool cleared = true;
      for (unsigned char b : from_device<unsigned char>(m.results, results_size))
        cleared &= b == 0xff;
      cleared ? ++right : (++wrong, printf("WRONG: results are not cleared, %s\n", name));
    }
    return from_device<int>(m.tokens + s.length, size_t(count));
  }
  /// As before any launch.
  void clear() { poison(m.results, results_size); }
  void rewind() { steps({kind, 0, 0, 0, 0}, 0, ""); }

private:
  void run(const step_options &o, int index, const char *name) {
    check(cudaError_t(step_launch(&m, &o, index, 1, nullptr)), name);
  }
  unsigned char *result(int i) {
    return static_cast<unsigned char *>(m.results) + step_results(&m, i);
  }
  static void poison(void *p, size_t bytes) { check(cudaMemset(p, 0xff, bytes), "poison"); }

  void check_attend(const step_options &o, int layer, int length, int index, const char *name) {
    const size_t d = size_t(s.d), q_size = size_t(s.heads) * d, kv_size = size_t(s.kv_heads) * d;
    const auto qkv = halves(result(index - 1), q_size + 2 * kv_size);
    const auto turned = [&](size_t from) {
      std::vector<double> x(qkv.begin() + long(from), qkv.begin() + long(from + d)), y(d);
      for (size_t i = 0; i < d / 2; ++i) {
        const double angle = length * std::pow(500000.0, -2.0 * double(i) / double(d));
        const double c = float(std::cos(angle)), t = float(std::sin(angle));
        y[i] = x[i] * c - x[i + d / 2] * t, y[i + d / 2] = x[i + d / 2] * c + x[i] * t;
      }
      return y;
    };
    run(o, index, name);
    const size_t cache = kv_size * size_t(s.capacity);
    const auto k = halves(layers[size_t(layer)].k, cache),
               v = halves(layers[size_t(layer)].v, cache);
    std::vector<double> want(q_size, 0.0), new_k, is_k;
    for (size_t h = 0; h < size_t(s.heads); ++h) {
      const size_t of = h / size_t(s.heads / s.kv_heads), base = of * size_t(s.capacity) * d;
      const auto q = turned(h * d), key = turned(q_size + of * d);
      if (h % size_t(s.heads / s.kv_heads) == 0)
        for (size_t i = 0; i < d; ++i) {
          new_k.push_back(key[i]), is_k.push_back(k[base + size_t(length) * d + i]);
          new_k.push_back(qkv[q_size + kv_size + of * d + i]),
              is_k.push_back(v[base + size_t(length) * d + i]);
        }
      double sum = 0;
      for (size_t n = 0; n <= size_t(length); ++n) {
        double score = 0;
        for (size_t i = 0; i < d; ++i)
          score += q[i] * (n < size_t(length) ? k[base + n * d + i] : key[i]);
        const double p = std::exp(score / std::sqrt(double(d)));
        sum += p;
        for (size_t i = 0; i < d; ++i)
          want[h * d + i] += p * v[base + n * d + i];
      }
      for (size_t i = 0; i < d; ++i)
        want[h * d + i] /= sum;
    }
    compare(halves(result(index), q_size), want, 2e-3, "attend", name);
    compare(is_k, new_k, 5e-4, "append", name);
  }

  sizes s;
  int kind, first_token;
  step_model m{};
  std::vector<step_layer> layers;
  std::vector<layer_values> values;
  packed head;
  size_t results_size;
  std::vector<double> last_gamma;
};

} // namespace

int main(int argc, char **argv) {
  const unsigned seed = argc > 1
                            ? unsigned(atoi(argv[1]))
                            : unsigned(std::chrono::system_clock::now().time_since_epoch().count());
  std::mt19937 random(seed);
  const bool small = argc > 2;
  const sizes cases[] = {{2, 264, 8, 2, 64, 200, 1003, 37, 64},
                         {1, 128, 4, 4, 128, 96, 40, 0, 8},
                         {1, 2048, 32, 8, 64, 4096, 9000, 515, 600}};
  for (const sizes &s : cases) {
    if (small && s.hidden > 1000)
      continue;
    for (int kind : {0, 2}) {
      subject of(kind, s, random);
      std::vector<int> first;
      for (int v = 0; v < step_variants(kind); ++v)
        for (int a = 0; a < step_attends(); ++a) {
          if (v > 0 && a != v % step_attends())
            continue;
          for (int early = 0; early < 2; ++early) {
            char name[128];
            snprintf(name, sizeof name, "weights %d, %s, attend %s%s", kind,
                     step_variant_name(kind, v), step_attend_name(a), early ? ", early" : "");
            const step_options o{kind, v, a, early, (v + a) % 2};
            of.rewind();
            of.check_kernels(o, name);
            of.clear();
            const auto tokens = of.steps(o, 3, name);
            if (first.empty())
              first = tokens;
            tokens == first ? ++right : (++wrong, printf("WRONG: steps in a row, %s\n", name));
          }
        }
    }
  }
  printf("decode step check, seed %u: %d right, %d wrong\n", seed, right, wrong);
  return wrong != 0;
}
