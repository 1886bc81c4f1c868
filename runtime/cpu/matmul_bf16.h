// Defines matmul_bf16: batched product of bf16 with a packed, constant right operand, sums in f32.
//
//   y[b0, b1, m, n] = body(sum over k of a[b0, b1, m, k] * b[k, n], ins...)
//
// It is the pointwise case of conv_bf16.h, as matmul.h is that of conv.h.
//
// Config, a, outs, ins, prologue_ins: as in matmul.h; a of bf16, or of what the prologue makes f32
// of. b: bf16 [ceil(n / lanes)][ceil(k / 2)][lanes][2], zeros where
// something is missing.
#ifndef TENON_RUNTIME_CPU_MATMUL_BF16_H
#define TENON_RUNTIME_CPU_MATMUL_BF16_H

#include "cpu/conv_bf16.h"
#include "cpu/matmul.h"

namespace tenon {
namespace cpu {

template <class Cfg, class X, class Outs, class Ins, class Body, class Prologue = no_prologue,
          class PrologueIns = arguments<>>
void matmul_bf16(const Cfg &cfg, const X &a, const bf16 *b, const Outs &outs, const Ins &ins,
                 const Body &body, pool &workers, const Prologue &prologue = {},
                 const PrologueIns &prologue_ins = {}) {
  detail::matmul_by(cfg, a, b, outs, ins,
                    [&](const auto &inner, const auto &pixels, const bf16 *w, const auto &results,
                        const auto &others) {
                      conv_bf16(inner, pixels, w, results, others, body, workers, prologue,
                                prologue_ins);
                    });
}

} // namespace cpu
} // namespace tenon

#endif
