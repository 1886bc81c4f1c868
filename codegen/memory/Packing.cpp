// Implements the storage of constants.
#include "codegen/memory/Packing.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

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

/// Copies elements of `Width` bytes from row-major order to their places.
template <size_t Width>
void scatter(const uint8_t *from, llvm::ArrayRef<int64_t> shape,
             const std::vector<std::vector<int64_t>> &tables, char *out) {
  const size_t rank = shape.size();
  const std::vector<int64_t> &inner = tables.back();
  llvm::SmallVector<int64_t, 6> index(rank, 0);
  while (true) {
    int64_t base = 0;
    for (size_t d = 0; d + 1 < rank; ++d)
      base += tables[d][size_t(index[d])];
    for (const int64_t offset : inner) {
      memcpy(out + size_t(base + offset) * Width, from, Width);
      from += Width;
    }
    size_t d = rank - 1;
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

bool isStoredAsIs(Type type) { return type.layout().isRowMajor() || bitWidth(type.element()) < 8; }

/// G g G^T of filters of 3 x 3.
Tensor winogradFilters(const Tensor &filters) {
  constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  Tensor out(Element::F32, {filters.shape()[0], filters.shape()[1], 4, 4});
  const auto *g = reinterpret_cast<const float *>(filters.bytes().data());
  auto *u = reinterpret_cast<float *>(out.mutableBytes());
  for (int64_t i = 0; i < out.size(); i += 16, g += 9, u += 16) {
    double rows[4][3] = {};
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 3; ++x)
        for (int t = 0; t < 3; ++t)
          rows[y][x] += kG[y][t] * double(g[3 * t + x]);
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 4; ++x) {
        double sum = 0;
        for (int t = 0; t < 3; ++t)
          sum += rows[y][t] * kG[x][t];
        u[4 * y + x] = float(sum);
      }
  }
  return out;
}

/// Floats rounded to tf32, ties away from zero, or in two parts: the rounded ones, as packed, then
/// what is left of each.
Tensor tf32Parts(const Tensor &value, Type packed, bool both) {
  std::string bytes(packedBytes(value, packed), '\0');
  packConstant(value, packed, bytes.data());
  const auto count = int64_t(bytes.size() / sizeof(float));
  Tensor out(Element::F32, {both ? 2 : 1, count});
  auto *big = reinterpret_cast<float *>(out.mutableBytes());
  for (int64_t i = 0; i < count; ++i) {
    float x;
    memcpy(&x, &bytes[size_t(i) * sizeof(float)], sizeof(float));
    big[i] = llvm::BitsToFloat((llvm::FloatToBits(x) + 0x1000u) & 0xffffe000u);
    if (both)
      big[count + i] = x - big[i];
  }
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
                            : size_t(allocatedElements(type)) * (bitWidth(type.element()) / 8);
}

void packConstant(const Tensor &tensor, Type type, char *out) {
  if (tensor.bytes().empty())
    return;
  if (isStoredAsIs(type)) {
    memcpy(out, tensor.bytes().data(), tensor.bytes().size());
    return;
  }
  const auto tables = offsetTables(type, tensor.shape());
  const uint8_t *from = tensor.bytes().data();
  switch (bitWidth(type.element()) / 8) {
  case 1: return scatter<1>(from, tensor.shape(), tables, out);
  case 2: return scatter<2>(from, tensor.shape(), tables, out);
  case 4: return scatter<4>(from, tensor.shape(), tables, out);
  case 8: return scatter<8>(from, tensor.shape(), tables, out);
  default: return scatter<16>(from, tensor.shape(), tables, out);
  }
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
  const int64_t shape[] = {type.dim(0).constant(), type.dim(1).constant(), 4, 4};
  return Type::tensor(type.context(), type.element(), llvm::ArrayRef<int64_t>(shape),
                      type.layout());
}

Tensor storedElements(const Operation &constant) {
  const Tensor &value = **constant.find("value")->get<Literal>();
  if (const auto f = weightFields(constant))
    return fieldsOf(value, constant.result()->type(), storedType(constant), *f);
  if (const auto f = joinedFilters(constant))
    return joinFilters(value, constant.result()->type(), storedType(constant), *f);
  if (isTf32(constant))
    return tf32Parts(value, constant.result()->type(), hasTf32Parts(constant));
  if (isPairs(constant))
    return pairsOf(value);
  return constant.has("stored") ? winogradFilters(value) : value;
}

int64_t storedBytes(const Operation &constant) {
  const Type t = storedType(constant);
  return byteSize(t.element(), allocatedElements(t));
}

uint64_t hashBytes(llvm::StringRef bytes) {
  uint64_t h = 14695981039346656037ull;
  const auto step = [&](uint64_t word) {
    h = (h ^ word) * 1099511628211ull;
    h ^= h >> 32;
  };
  while (bytes.size() >= 8) {
    step(llvm::support::endian::read64le(bytes.data()));
    bytes = bytes.drop_front(8);
  }
  char rest[8] = {};
  std::copy(bytes.begin(), bytes.end(), rest);
  step(llvm::support::endian::read64le(rest));
  return h;
}

} // namespace tenon
