// Declares BodyProgram: the body of a map or reduce, evaluated op by op over tiles of elements.
//
// A value of the body is an array: doubles for float types, 64-bit integers for all others. Each
// step computes one array from others and rounds or wraps it to its type.
#pragma once

#include "ir/IR.h"
#include "ir/Scalar.h"
#include "ir/Tensor.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tenon {

constexpr int64_t kTile = 1024;

/// One value over a tile; only the array of its class is in use.
struct Lanes {
  Element element = Element::F32;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  explicit Lanes(Element e) : element(e) {
    if (isFloat(e))
      reals.resize(size_t(kTile));
    else
      integers.resize(size_t(kTile));
  }
  void fill(double real, int64_t integer, int64_t n);
  /// Reads elements offsets[i] + base of `t`, which has this type.
  void load(const Tensor &t, const int64_t *offsets, int64_t base, int64_t n);
  void loadRun(const Tensor &t, int64_t begin, int64_t n);
  void store(Tensor &t, int64_t begin, int64_t n) const;
};

/// Fills `out` with positions along iteration dimension `dim` for the lanes of a tile.
using IndexSource = llvm::function_ref<void(int64_t dim, int64_t *out, int64_t n)>;

/// The steps of a body; shared between threads, each of which has a BodyTile.
class BodyProgram {
public:
  /// Values that are yielded in `exact` bodies keep double precision: accumulators of a reduce.
  /// `wide`: floats are f64, as ir/Interpreter.h says.
  explicit BodyProgram(Region &body, bool exact = false, bool wide = false);

  llvm::ArrayRef<Element> slots() const { return slots_; }
  unsigned slotOf(Value *v) const { return slotOf_.lookup(v); }
  unsigned yielded(unsigned i) const { return yields_[i]; }
  unsigned numYields() const { return unsigned(yields_.size()); }
  /// True when the body only passes arguments on.
  bool isIdentity() const { return steps_.empty() && constants_.empty(); }

private:
  friend class BodyTile;
  struct Step {
    Op kind;
    const ScalarInfo *info;
    unsigned result;
    unsigned operands[3];
    bool rounds;       // a cast: its `rounds`; else to the type that the body computes in
    Element from, to;  // a cast: what its operand is a number of, and what its result is
    int64_t dim;       // Index
    const Ints *table; // Lookup
  };
  struct Constant {
    unsigned slot;
    double real;
    int64_t integer;
  };
  llvm::DenseMap<Value *, unsigned> slotOf_;
  std::vector<Element> slots_; // arguments first
  std::vector<Step> steps_;
  std::vector<Constant> constants_;
  std::vector<unsigned> yields_;
};

/// The arrays of one thread.
class BodyTile {
public:
  explicit BodyTile(const BodyProgram &program);
  Lanes &slot(unsigned i) { return lanes_[i]; }
  Lanes &yielded(unsigned i) { return lanes_[program_.yielded(i)]; }
  /// Runs all steps on the first n lanes.
  void run(int64_t n, IndexSource index);

private:
  const double *reals(unsigned slot, unsigned scratch, int64_t n);
  void compute(const BodyProgram::Step &step, int64_t n);
  static void lookUp(const Ints &table, const Lanes &from, Lanes &to, int64_t n);
  void cast(const BodyProgram::Step &step, int64_t n);

  const BodyProgram &program_;
  std::vector<Lanes> lanes_;
  std::vector<double> scratch_[3], out_;
};

} // namespace tenon
