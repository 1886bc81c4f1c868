// Implements the storage of constants.
#include "codegen/memory/Packing.h"

#include "codegen/memory/Strips.h"
#include "ir/ops/Parallel.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>
#include <functional>

namespace tenon {
namespace {

/// Where the elements of one dimension stand: physicalIndex is a sum of one entry for each.
std::vector<std::vector<int64_t>> offsetTables(Type type, llvm::ArrayRef<int64_t> shape) {
  std::vector<std::vector<int64_t>> tables(shape.size());
  llvm::SmallVector<int64_t, 6> index(shape.size(), 0);
  const int64_t origin = physicalIndex(type, index);
  for (size_t d = 0; d < shape.size(); ++d) {
    for (int64_t i = 0; i < shape[d]; ++i) {
      index[d] = i;
      tables[d].push_back(physicalIndex(type, index) - origin);
    }
    index[d] = 0;
  }
  // The first element's place is counted once.
  for (int64_t &offset : tables.front())
    offset += origin;
  return tables;
}

/// Elements of a tile's side, and those that pay for a thread.
constexpr int64_t kTile = 64, kThreadElements = 1 << 16;
/// Bytes of a part: enough to pay for handing it from one thread to the next, few enough to stay in
/// a cache until somebody has read them.
constexpr int64_t kPartBytes = 1 << 20;

/// How many elements from `i` on stand next to each other, `most` at most.
int64_t runLength(llvm::ArrayRef<int64_t> offsets, int64_t i, int64_t most) {
  int64_t n = 1;
  while (n < most && offsets[size_t(i + n)] == offsets[size_t(i)] + n)
    ++n;
  return n;
}

/// Copies elements of `Width` bytes from row-major order to their places, in tiles along two
/// dimensions: the innermost one, in which elements are read side by side, and the one in which
/// they are written so. Rows of a tile lie a power of two apart often, on the same lines of a
/// cache, so that each is read whole before any element is written.
template <size_t Width> class Scatter {
public:
  /// Strides are those of `from`; a table has the places of as many elements as are copied. Place
  /// `first` is at `out`.
  Scatter(const uint8_t *from, llvm::ArrayRef<int64_t> strides,
          llvm::ArrayRef<llvm::ArrayRef<int64_t>> tables, char *out, int64_t first)
      : from_(from), out_(out), first_(first), inner_(tables.back()),
        columns_(int64_t(inner_.size())) {
    // Elements that are written side by side as they are read need no second dimension.
    const bool asRead = columns_ == 1 || inner_[1] == inner_[0] + 1;
    for (size_t d = tables.size() - 1; d-- > 0;) {
      const auto extent = int64_t(tables[d].size());
      if (!asRead && rows_.empty() && extent > 1 && tables[d][1] == tables[d][0] + 1) {
        rows_ = tables[d];
        stride_ = strides[d];
      } else {
        outer_.push_back({extent, strides[d], tables[d]});
      }
    }
  }

  void run() const {
    const int64_t rows = rows_.empty() ? 1 : int64_t(rows_.size());
    const int64_t down = int64_t(llvm::divideCeil(rows, kTile));
    // Along columns alone whole rows are copied.
    const int64_t width = rows_.empty() ? columns_ : kTile;
    const int64_t across = int64_t(llvm::divideCeil(columns_, width));
    int64_t tiles = down * across;
    for (const Outer &o : outer_)
      tiles *= o.extent;
    for (int64_t t = 0; t < tiles; ++t) {
      int64_t rest = t / across, source = t % across * width, base = 0;
      const int64_t row = rest % down * kTile, column = source;
      rest /= down;
      source += row * stride_;
      for (const Outer &o : outer_) {
        const int64_t i = rest % o.extent;
        rest /= o.extent;
        source += i * o.stride;
        base += o.offsets[size_t(i)];
      }
      const uint8_t *from = from_ + size_t(source) * Width;
      if (rows_.empty())
        line(from, base);
      else
        tile(from, base, row, std::min(kTile, rows - row), column,
             std::min(kTile, columns_ - column));
    }
  }

private:
  char *place(int64_t at) const { return out_ + size_t(at - first_) * Width; }

  void line(const uint8_t *from, int64_t base) const {
    for (int64_t i = 0; i < columns_;) {
      const int64_t n = runLength(inner_, i, columns_ - i);
      memcpy(place(base + inner_[size_t(i)]), from + size_t(i) * Width, size_t(n) * Width);
      i += n;
    }
  }

  void tile(const uint8_t *from, int64_t base, int64_t row, int64_t rows, int64_t column,
            int64_t columns) const {
    uint8_t read[kTile][kTile][Width], written[kTile][Width];
    for (int64_t i = 0; i < rows; ++i)
      memcpy(read[i], from + size_t(i * stride_) * Width, size_t(columns) * Width);
    for (int64_t i = 0; i < rows;) {
      const int64_t n = runLength(rows_, row + i, rows - i);
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t k = 0; k < n; ++k)
          memcpy(written[k], read[i + k][j], Width);
        memcpy(place(base + rows_[size_t(row + i)] + inner_[size_t(column + j)]), written,
               size_t(n) * Width);
      }
      i += n;
    }
  }

  /// A dimension that tiles do not extend along.
  struct Outer {
    int64_t extent, stride;
    llvm::ArrayRef<int64_t> offsets;
  };
  const uint8_t *from_;
  char *out_;
  int64_t first_;
  llvm::ArrayRef<int64_t> inner_, rows_; // none: lines instead of tiles
  int64_t columns_, stride_ = 0;
  llvm::SmallVector<Outer, 6> outer_; // the innermost first
};

bool isStoredAsIs(Type type) { return type.layout().isRowMajor(); }

/// Elements of less than a byte move by whole ones: the last dimension, whose elements the layout
/// keeps together in runs of whole bytes, has as many bytes instead.
Type asBytes(Type type) {
  const int64_t bits = bitWidth(type.element()), each = 8 / bits;
  const auto last = int(type.rank()) - 1;
  llvm::SmallVector<Dim, 6> shape(type.shape().begin(), type.shape().end());
  assert(shape.back().constant() % each == 0 && "rows of whole bytes");
  shape.back() = type.context().dim(shape.back().constant() / each);
  llvm::SmallVector<LayoutAxis, 8> axes(type.layout().axes().begin(), type.layout().axes().end());
  assert(axes.back().dim == last && axes.back().block % each == 0 && "runs of whole bytes");
  for (LayoutAxis &a : axes)
    if (a.dim == last)
      a.block /= each;
  return Type::tensor(type.context(), Element::U8, shape, Layout::get(type.context(), axes));
}

/// What Winograd's convolutions multiply in place of a filter g of 3 x 3 taps: G g G^T, of as many
/// rows and columns as G has rows.
struct WinogradTransform {
  int side;
  double g[6][3];
};
/// F(2x2, 3x3), of the points 0, 1, -1 and infinity.
constexpr WinogradTransform kWinograd = {4,
                                         {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}};
/// F(4x4, 3x3), of the points of runtime/cpu/conv_winograd_f4.h: a row of p is 1, p, p^2 over the
/// product of the differences from all others.
constexpr WinogradTransform winograd6() {
  WinogradTransform t{6, {}};
  constexpr double kPoints[] = {0, 0.625, -0.625, 1.5, -1.5};
  for (int i = 0; i < 5; ++i) {
    double differences = 1;
    for (int k = 0; k < 5; ++k)
      differences *= k == i ? 1 : kPoints[i] - kPoints[k];
    double power = 1 / differences;
    for (int j = 0; j < 3; ++j, power *= kPoints[i])
      t.g[i][j] = power;
  }
  t.g[5][2] = 1;
  return t;
}
constexpr WinogradTransform kWinograd6 = winograd6();

/// Of an attribute `stored` that says so.
const WinogradTransform &winogradOf(const Operation &constant) {
  return constant.wordAttr("stored") == "winograd6" ? kWinograd6 : kWinograd;
}
bool isWinograd(const Operation &constant) {
  return constant.wordAttr("stored").startswith("winograd");
}

/// The shape of filters as they are stored: each of `side` rows and columns.
llvm::SmallVector<int64_t, 5> winogradShape(Type filters, const WinogradTransform &t) {
  llvm::SmallVector<int64_t, 5> shape;
  for (unsigned d = 0; d + 2 < filters.rank(); ++d)
    shape.push_back(filters.dim(d).constant());
  shape.append(2, t.side);
  return shape;
}

/// The weights of one filter after the other from `from` on, `Lanes` of them side by side, each
/// computed in double and rounded once.
template <int Lanes>
void transformFilters(const WinogradTransform &t, const float *from, float *to) {
  double g[9][Lanes], row[3][Lanes];
  for (int i = 0; i < 9; ++i)
    for (int f = 0; f < Lanes; ++f)
      g[i][f] = double(from[f * 9 + i]);
  for (int y = 0; y < t.side; ++y) {
    const double *a = t.g[y];
    for (int x = 0; x < 3; ++x)
      for (int f = 0; f < Lanes; ++f)
        row[x][f] = a[0] * g[x][f] + a[1] * g[3 + x][f] + a[2] * g[6 + x][f];
    for (int x = 0; x < t.side; ++x) {
      const double *b = t.g[x];
      float u[Lanes];
      for (int f = 0; f < Lanes; ++f)
        u[f] = float(row[0][f] * b[0] + row[1][f] * b[1] + row[2][f] * b[2]);
      for (int f = 0; f < Lanes; ++f)
        to[f * t.side * t.side + t.side * y + x] = u[f];
    }
  }
}

/// The weights of `count` filters from `from` on.
void transformFilters(const WinogradTransform &t, const float *from, int64_t count, float *to) {
  constexpr int kLanes = 8;
  for (; count >= kLanes; count -= kLanes, from += kLanes * 9, to += kLanes * t.side * t.side)
    transformFilters<kLanes>(t, from, to);
  for (; count > 0; --count, from += 9, to += t.side * t.side)
    transformFilters<1>(t, from, to);
}

/// A tensor in the layout of its type, in parts along the outermost dimension of that: they can be
/// made one at a time, on any thread. Each but the last has whole words of eight bytes.
class LayoutParts {
public:
  /// `transform`: of filters, which become those of `type` part by part.
  LayoutParts(Tensor tensor, Type type, const WinogradTransform *transform = nullptr,
              int64_t partBytes = kPartBytes)
      : tensor_(std::move(tensor)), transform_(transform),
        type_(bitWidth(type.element()) < 8 ? asBytes(type) : type),
        shape_(tensor_.shape().begin(), tensor_.shape().end()),
        width_(size_t(bitWidth(type_.element()) / 8)) {
    if (transform)
      shape_ = winogradShape(type, *transform);
    if (bitWidth(type.element()) < 8)
      shape_.back() = type_.dim(type_.rank() - 1).constant();
    tables_ = offsetTables(type_, shape_);
    strides_.assign(shape_.size(), 1);
    for (size_t d = shape_.size(); --d > 0;)
      strides_[d - 1] = strides_[d] * shape_[d];
    splitOuter(partBytes);
  }

  size_t count() const { return size_t(llvm::divideCeil(extent_, step_)); }
  /// Where a part begins, in bytes; that of count() is the end of all.
  size_t begin(size_t part) const {
    return size_t(std::min(int64_t(part) * step_, extent_) * each_) * width_;
  }
  bool isPadded() const { return padded_; }
  /// Whether a part is made of whole filters.
  bool hasWholeFilters() const { return count() == 1 || dim_ == 0; }

  /// Writes the elements of a part; `out` is where it begins, padding stays as it is. `scratch` is
  /// for what a part is made of.
  void fill(size_t part, char *out, llvm::SmallVectorImpl<char> &scratch) const {
    if (tensor_.size() == 0)
      return;
    llvm::SmallVector<llvm::ArrayRef<int64_t>, 6> tables(tables_.begin(), tables_.end());
    const uint8_t *from = tensor_.bytes().data();
    int64_t filters = transform_ ? shape_[0] : 0, filter = 0;
    if (count() > 1) {
      const int64_t all = shape_[dim_], block = std::max<int64_t>(block_, 1);
      const auto index = [&](int64_t outer) {
        return std::min(std::max<int64_t>(outer * block - origin_, 0), all);
      };
      const int64_t first = index(int64_t(part) * step_),
                    end = index(std::min(int64_t(part + 1) * step_, extent_));
      if (first == end)
        return;
      tables[dim_] = tables[dim_].slice(size_t(first), size_t(end - first));
      if (transform_)
        filter = first, filters = end - first;
      else
        from += size_t(first * strides_[dim_]) * width_;
    }
    if (transform_) {
      const int64_t planes = strides_[0] / (transform_->side * transform_->side);
      scratch.resize_for_overwrite(size_t(filters * strides_[0]) * sizeof(float));
      transformFilters(*transform_, reinterpret_cast<const float *>(from) + filter * planes * 9,
                       filters * planes, reinterpret_cast<float *>(scratch.data()));
      from = reinterpret_cast<const uint8_t *>(scratch.data());
    }
    const auto place = int64_t(begin(part) / width_);
    switch (width_) {
    case 1: return Scatter<1>(from, strides_, tables, out, place).run();
    case 2: return Scatter<2>(from, strides_, tables, out, place).run();
    case 4: return Scatter<4>(from, strides_, tables, out, place).run();
    case 8: return Scatter<8>(from, strides_, tables, out, place).run();
    default: return Scatter<16>(from, strides_, tables, out, place).run();
    }
  }

private:
  /// Finds the outermost axis that has an extent and how much of it makes a part.
  void splitOuter(int64_t partBytes) {
    each_ = allocatedElements(type_);
    int64_t elements = 1;
    for (int64_t n : shape_)
      elements *= n;
    padded_ = each_ != elements;
    for (const LayoutAxis &a : type_.layout().axes()) {
      if (a.inner) // behind axes of one place
        return;
      const int64_t places = (a.alloc ? a.alloc : type_.dim(unsigned(a.dim))).upper(),
                    extent = a.block ? int64_t(llvm::divideCeil(places, a.block)) : places;
      if (extent == 1)
        continue;
      dim_ = size_t(a.dim);
      block_ = a.block;
      extent_ = extent;
      each_ /= extent;
      break;
    }
    for (const LayoutAxis &a : type_.layout().axes())
      origin_ += size_t(a.dim) == dim_ ? a.origin : 0;
    const int64_t bytes = std::max<int64_t>(each_ * int64_t(width_), 1);
    step_ = std::max<int64_t>(partBytes / bytes, 1);
    if (bytes % 8 != 0)
      step_ = int64_t(llvm::alignTo(uint64_t(step_), 8));
  }

  Tensor tensor_;
  const WinogradTransform *transform_;
  Type type_;
  llvm::SmallVector<int64_t, 6> shape_, strides_;
  size_t width_;
  std::vector<std::vector<int64_t>> tables_;
  size_t dim_ = 0;
  /// Of the axis: its block (0: none), places, elements of each, places of a part.
  int64_t block_ = 0, extent_ = 1, each_ = 0, step_ = 1, origin_ = 0;
  bool padded_ = false;
};

Tensor winogradFilters(const Tensor &filters, llvm::ArrayRef<int64_t> shape,
                       const WinogradTransform &t) {
  Tensor out(Element::F32, shape);
  const int places = t.side * t.side;
  const auto *from = reinterpret_cast<const float *>(filters.bytes().data());
  auto *to = reinterpret_cast<float *>(out.mutableBytes());
  parallelFor(
      out.size() / places, kThreadElements / places,
      [&](int64_t begin, int64_t end) {
        transformFilters(t, from + begin * 9, end - begin, to + begin * places);
      },
      kAllThreads);
  return out;
}

/// Floats rounded to tf32, ties away from zero, or what is left of each.
void toTf32(llvm::StringRef floats, bool rest, char *out) {
  for (size_t at = 0; at < floats.size(); at += sizeof(float)) {
    float x;
    memcpy(&x, floats.data() + at, sizeof(float));
    const float big = llvm::BitsToFloat((llvm::FloatToBits(x) + 0x1000u) & 0xffffe000u),
                stored = rest ? x - big : big;
    memcpy(out + at, &stored, sizeof(float));
  }
}

/// The rounded floats, as packed, and behind them what is left of each where they are in `both`
/// parts.
Tensor tf32Parts(const Tensor &value, Type packed, bool both) {
  std::string bytes(packedBytes(value, packed), '\0');
  packConstant(value, packed, bytes.data());
  Tensor out(Element::F32, {both ? 2 : 1, int64_t(bytes.size() / sizeof(float))});
  auto *to = reinterpret_cast<char *>(out.mutableBytes());
  toTf32(bytes, /*rest=*/false, to);
  if (both)
    toTf32(bytes, /*rest=*/true, to + bytes.size());
  return out;
}
/// Of an attribute `stored` that says so.
bool isTf32(const Operation &constant) { return constant.wordAttr("stored").startswith("tf32"); }
bool hasTf32Parts(const Operation &constant) { return constant.wordAttr("stored") == "tf32x3"; }

/// Each element of a row with the one before it, zeros before the first and behind the last.
Tensor pairsOf(const Tensor &value) {
  const int64_t columns = value.shape().back(), rows = columns ? value.size() / columns : 0;
  Tensor out(value.element(), {rows, columns + 1, 2});
  const auto *from = reinterpret_cast<const uint16_t *>(value.bytes().data());
  auto *to = reinterpret_cast<uint16_t *>(out.mutableBytes());
  for (int64_t r = 0; r < rows; ++r, from += columns)
    for (int64_t i = 0; i <= columns; ++i) {
      *to++ = i > 0 ? from[i - 1] : uint16_t(0);
      *to++ = i < columns ? from[i] : uint16_t(0);
    }
  return out;
}
bool isPairs(const Operation &constant) { return constant.wordAttr("stored") == "pairs"; }

/// Rows of a packed type and the elements of each.
std::pair<int64_t, int64_t> rowsOf(Type type) {
  const auto axes = type.layout().axes();
  const int64_t extent = type.dim(axes.empty() ? 0 : axes[0].dim).constant();
  const int64_t rows = !axes.empty() && axes[0].block ? extent / axes[0].block : extent;
  return {rows, allocatedElements(type) / rows};
}

/// The weights of each row in groups of `lanes`; group g of a run is in the bits below 8 - bits * g
/// of its bytes.
Tensor fieldsOf(const Tensor &value, Type packed, Type stored, const WeightFields &f) {
  const auto [rows, count] = rowsOf(packed);
  std::string bytes(packedBytes(value, packed), '\0');
  packConstant(value, packed, bytes.data());
  Tensor out(Element::U8, {rows, stored.dim(1).constant()});
  uint8_t *to = out.mutableBytes();
  const int64_t groups = 8 / f.bits, run = groups * f.lanes;
  for (int64_t r = 0; r < rows; ++r, to += stored.dim(1).constant())
    for (int64_t i = 0; i < count; ++i) {
      const auto field = uint8_t(uint8_t(bytes[size_t(r * count + i)]) << (8 - f.bits));
      to[i / run * f.lanes + i % f.lanes] |= uint8_t(field >> (i % run / f.lanes * f.bits));
    }
  return out;
}

/// Weights i of filters 2 p and 2 p + 1 of each pair as a 256 + b; four of them as two words.
Tensor joinFilters(const Tensor &value, Type packed, Type stored, const JoinedFilters &f) {
  const auto [filters, count] = rowsOf(packed);
  std::string bytes(packedBytes(value, packed), '\0');
  packConstant(value, packed, bytes.data());
  const int64_t rowBytes = stored.dim(1).constant();
  Tensor out(Element::U8, {stored.dim(0).constant(), rowBytes});
  uint8_t *to = out.mutableBytes();
  const auto weight = [&, filters = filters, count = count](int64_t filter, int64_t i) {
    return filter < filters ? int(int8_t(bytes[size_t(filter * count + i)])) : 0;
  };
  for (int64_t pair = 0; 2 * pair < filters; ++pair)
    for (int64_t i = 0; i < count; ++i) {
      const int both = 256 * weight(2 * pair, i) + weight(2 * pair + 1, i);
      const int64_t word = (i / 4 * f.pairs + pair % f.pairs) * 2 + i % 2, half = i % 4 / 2;
      llvm::support::endian::write16le(to + pair / f.pairs * rowBytes + 4 * word + 2 * half,
                                       uint16_t(both));
    }
  return out;
}

} // namespace

std::string JoinedFilters::word() const { return "joined" + std::to_string(pairs); }
int64_t JoinedFilters::rows(int64_t filters) const {
  return int64_t(llvm::divideCeil(filters, 2 * pairs));
}
int64_t JoinedFilters::rowBytes(int64_t count) const {
  return int64_t(llvm::divideCeil(count, 4)) * 8 * pairs;
}

llvm::Optional<JoinedFilters> joinedFilters(const Operation &constant) {
  llvm::StringRef word = constant.wordAttr("stored");
  JoinedFilters f;
  if (!word.consume_front("joined") || word.getAsInteger(10, f.pairs))
    return llvm::None;
  return f;
}

std::string WeightFields::word() const {
  return "i" + std::to_string(bits) + "x" + std::to_string(lanes);
}

int64_t WeightFields::rowBytes(int64_t count) const {
  return int64_t(llvm::divideCeil(count, lanes * 8 / bits)) * lanes;
}

llvm::Optional<WeightFields> weightFields(const Operation &constant) {
  llvm::StringRef word = constant.wordAttr("stored");
  WeightFields f;
  if (!word.consume_front("i") || word.consumeInteger(10, f.bits) || !word.consume_front("x") ||
      word.getAsInteger(10, f.lanes))
    return llvm::None;
  return f;
}

size_t packedBytes(const Tensor &tensor, Type type) {
  return isStoredAsIs(type) ? tensor.bytes().size()
                            : size_t(byteSize(type.element(), allocatedElements(type)));
}

void packConstant(const Tensor &tensor, Type type, char *out) {
  if (tensor.bytes().empty())
    return;
  if (isStoredAsIs(type)) {
    memcpy(out, tensor.bytes().data(), tensor.bytes().size());
    return;
  }
  const LayoutParts parts(tensor, type);
  parallelFor(
      int64_t(parts.count()), 1,
      [&](int64_t begin, int64_t end) {
        llvm::SmallVector<char, 0> scratch;
        for (auto i = size_t(begin); i < size_t(end); ++i)
          parts.fill(i, out + parts.begin(i), scratch);
      },
      kAllThreads);
}

Type storedType(const Operation &constant) {
  const Type type = constant.result()->type();
  if (!constant.has("stored"))
    return type;
  if (const auto f = weightFields(constant)) {
    const auto [rows, count] = rowsOf(type);
    const int64_t bytes[] = {rows, f->rowBytes(count)};
    return Type::tensor(type.context(), Element::U8, llvm::ArrayRef<int64_t>(bytes));
  }
  if (const auto f = joinedFilters(constant)) {
    const auto [filters, count] = rowsOf(type);
    const int64_t bytes[] = {f->rows(filters), f->rowBytes(count)};
    return Type::tensor(type.context(), Element::U8, llvm::ArrayRef<int64_t>(bytes));
  }
  if (constant.wordAttr("stored") == kStrips)
    return stripsType(type);
  if (const auto scales = stripScales(constant))
    return stripScalesType(type, *scales);
  if (isTf32(constant)) {
    const int64_t parts[] = {hasTf32Parts(constant) ? 2 : 1, allocatedElements(type)};
    return Type::tensor(type.context(), type.element(), llvm::ArrayRef<int64_t>(parts));
  }
  if (isPairs(constant)) {
    const int64_t columns = type.dim(type.rank() - 1).constant(),
                  rows = columns ? allocatedElements(type) / columns : 0;
    const int64_t pairs[] = {rows, columns + 1, 2};
    return Type::tensor(type.context(), type.element(), llvm::ArrayRef<int64_t>(pairs));
  }
  assert(isWinograd(constant) && "the verifier knows all words");
  return Type::tensor(type.context(), type.element(), winogradShape(type, winogradOf(constant)),
                      type.layout());
}

Tensor storedElements(const Operation &constant) {
  const Tensor &value = **constant.find("value")->get<Literal>();
  if (const auto f = weightFields(constant))
    return fieldsOf(value, constant.result()->type(), storedType(constant), *f);
  if (const auto f = joinedFilters(constant))
    return joinFilters(value, constant.result()->type(), storedType(constant), *f);
  if (constant.wordAttr("stored") == kStrips)
    return stripsOf(value, constant.result()->type());
  if (const auto scales = stripScales(constant))
    return stripScalesOf(value, *scales);
  if (isTf32(constant))
    return tf32Parts(value, constant.result()->type(), hasTf32Parts(constant));
  if (isPairs(constant))
    return pairsOf(value);
  if (!isWinograd(constant))
    return value;
  const WinogradTransform &t = winogradOf(constant);
  return winogradFilters(value, winogradShape(constant.result()->type(), t), t);
}

int64_t storedBytes(const Operation &constant) {
  const Type t = storedType(constant);
  return byteSize(t.element(), allocatedElements(t));
}

namespace {
uint64_t hashStep(uint64_t h, uint64_t word) {
  h = (h ^ word) * 1099511628211ull;
  return h ^ h >> 32;
}
} // namespace

void BytesHash::addWords(llvm::StringRef bytes) {
  uint64_t h = hash_;
  for (const char *p = bytes.begin(); p != bytes.end(); p += 8)
    h = hashStep(h, llvm::support::endian::read64le(p));
  hash_ = h;
}

void BytesHash::addWords(llvm::StringRef bytes, size_t zeros) {
  const size_t words = bytes.size() / 8 * 8;
  addWords(bytes.take_front(words));
  std::string rest = bytes.drop_front(words).str();
  rest.resize(rest.size() + zeros);
  addWords(rest);
}

uint64_t BytesHash::end(llvm::StringRef rest) const {
  char word[8] = {};
  std::copy(rest.begin(), rest.end(), word);
  return hashStep(hash_, llvm::support::endian::read64le(word));
}

uint64_t hashBytes(llvm::StringRef bytes) {
  BytesHash hash;
  hash.addWords(bytes.take_front(bytes.size() / 8 * 8));
  return hash.end(bytes.drop_front(bytes.size() / 8 * 8));
}

PackedConstant::PackedConstant(const Operation &constant) {
  std::map<const Value *, Value *> none;
  constant_.reset(constant.clone(none));
}

const Tensor &PackedConstant::literal() const { return **constant_->find("value")->get<Literal>(); }

size_t PackedConstant::size() const { return size_t(storedBytes(*constant_)); }

bool PackedConstant::isMadeAlike(const PackedConstant &other) const {
  return source() == other.source() && literal().bytes().size() == other.literal().bytes().size() &&
         isInFormOf(other);
}

bool PackedConstant::isInFormOf(const PackedConstant &other) const {
  return constant_->result()->type() == other.constant_->result()->type() &&
         constant_->wordAttr("stored") == other.constant_->wordAttr("stored");
}

namespace {

/// A part as it is made: in rooms that the next one takes over, or bytes that stand somewhere.
struct Part {
  llvm::SmallVector<char, 0> room, scratch;
  llvm::StringRef bytes;

  char *makeRoom(size_t size) {
    room.resize_for_overwrite(size);
    bytes = {room.data(), size};
    return room.data();
  }
};

/// Stored bytes in parts of about `partBytes` that can be made one at a time, on any thread, each
/// but the last a multiple of eight.
struct StoredParts {
  size_t count;
  /// Where a part begins; that of `count` is the end of all.
  std::function<size_t(size_t)> begin;
  std::function<void(size_t, Part &)> fill;
};

/// Of `count` rows of so many bytes each, a multiple of eight: `fill(first, end, out)`.
StoredParts partsOfRows(int64_t count, int64_t bytes, int64_t partBytes,
                        std::function<void(int64_t, int64_t, uint8_t *)> fill) {
  const int64_t step = std::max<int64_t>(partBytes / std::max<int64_t>(bytes, 1), 1);
  const auto row = [=](size_t part) { return std::min(int64_t(part) * step, count); };
  return {size_t(llvm::divideCeil(count, step)), [=](size_t i) { return size_t(row(i) * bytes); },
          [=](size_t i, Part &part) {
            char *out = part.makeRoom(size_t((row(i + 1) - row(i)) * bytes));
            fill(row(i), row(i + 1), reinterpret_cast<uint8_t *>(out));
          }};
}

StoredParts partsOfLayout(std::shared_ptr<const LayoutParts> parts) {
  return {parts->count(), [=](size_t i) { return parts->begin(i); },
          [=](size_t i, Part &part) {
            char *out = part.makeRoom(parts->begin(i + 1) - parts->begin(i));
            if (parts->isPadded())
              memset(out, 0, part.bytes.size());
            parts->fill(i, out, part.scratch);
          }};
}

/// Of elements in the layout of `type`.
StoredParts partsOfElements(Tensor elements, Type type, int64_t partBytes) {
  if (!isStoredAsIs(type))
    return partsOfLayout(
        std::make_shared<const LayoutParts>(std::move(elements), type, nullptr, partBytes));
  const size_t size = elements.bytes().size(), step = size_t(partBytes);
  return {llvm::divideCeil(size, step), [=](size_t i) { return std::min(i * step, size); },
          [=, elements = std::move(elements)](size_t i, Part &part) {
            part.bytes =
                llvm::StringRef(reinterpret_cast<const char *>(elements.bytes().data()), size)
                    .substr(i * step, step);
          }};
}

/// The rounded floats part by part, then what is left of each.
StoredParts partsOfTf32(StoredParts floats, bool both) {
  const size_t each = floats.count, all = floats.begin(each);
  return {both ? 2 * each : each,
          [=](size_t i) { return i < each ? floats.begin(i) : all + floats.begin(i - each); },
          [=](size_t i, Part &part) {
            floats.fill(i % each, part);
            const llvm::StringRef from = part.bytes;
            if (from.data() != part.room.data())
              part.makeRoom(from.size());
            toTf32(from, /*rest=*/i >= each, part.room.data());
          }};
}

StoredParts partsOf(const Operation &constant, int64_t partBytes) {
  const Tensor &literal = **constant.find("value")->get<Literal>();
  const Type type = storedType(constant), packed = constant.result()->type();
  if (constant.wordAttr("stored") == kStrips)
    return partsOfRows(type.dim(0).constant(), byteSize(type.element(), type.dim(1).constant()),
                       partBytes, [=](int64_t first, int64_t end, uint8_t *out) {
                         fillStrips(literal, packed, first, end, out);
                       });
  if (const auto scales = stripScales(constant))
    return partsOfRows(type.dim(0).constant(), byteSize(type.element(), type.dim(1).constant()),
                       partBytes, [=](int64_t first, int64_t end, uint8_t *out) {
                         fillStripScales(literal, *scales, first, end, out);
                       });
  // What is left of floats begins at a whole word.
  if (isTf32(constant) && packedBytes(literal, packed) % 8 == 0)
    return partsOfTf32(partsOfElements(literal, packed, partBytes), hasTf32Parts(constant));
  if (isWinograd(constant) && !isStoredAsIs(type)) {
    auto parts =
        std::make_shared<const LayoutParts>(literal, type, &winogradOf(constant), partBytes);
    if (parts->hasWholeFilters())
      return partsOfLayout(std::move(parts));
  }
  Tensor elements = storedElements(constant);
  if (constant.has("stored")) // made of the literal, which has been read
    literal.leaveMemory();
  return partsOfElements(std::move(elements), type, partBytes);
}

} // namespace

void PackedConstant::forParts(llvm::function_ref<void(llvm::StringRef)> use) const {
  const StoredParts parts = partsOf(*constant_, kPartBytes);
  parallelInOrder<Part>(
      int64_t(parts.count), [&](int64_t i, Part &part) { parts.fill(size_t(i), part); },
      [&](int64_t, Part &part) { use(part.bytes); });
  leaveMemory();
}

std::string PackedConstant::read(size_t at, size_t count) const {
  const StoredParts parts = partsOf(*constant_, /*partBytes=*/1 << 14);
  std::string bytes;
  Part part;
  for (size_t i = 0; i < parts.count && parts.begin(i) < at + count; ++i) {
    const size_t first = parts.begin(i);
    if (parts.begin(i + 1) <= at)
      continue;
    parts.fill(i, part);
    const size_t skipped = at > first ? at - first : 0;
    bytes += part.bytes.drop_front(skipped).take_front(count - bytes.size());
  }
  leaveMemory();
  return bytes;
}

bool PackedConstant::hasBytesOf(const PackedConstant &other) const {
  if (size() != other.size())
    return false;
  if (isInFormOf(other)) { // forms keep what tells elements apart, down to some bits of tf32
    const bool same = literal().sameBytes(other.literal());
    leaveMemory();
    other.leaveMemory();
    return same;
  }
  // Parts of two layouts do not begin at the same places.
  const std::string all = read(0, size());
  llvm::StringRef rest = all;
  bool same = true;
  other.forParts([&](llvm::StringRef part) { same &= rest.consume_front(part); });
  return same;
}

void PackedConstant::leaveMemory() const { literal().leaveMemory(); }

} // namespace tenon
