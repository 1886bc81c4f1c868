// Implements the element type table.
#include "ir/Element.h"

#include <limits>

namespace tenon {
namespace {
struct Row {
  const char *text;
  unsigned bits;
  int onnx;
  char kind;
};
constexpr Row kRows[] = {
#define TENON_ELEMENT(NAME, TEXT, BITS, ONNX, CLASS) {TEXT, BITS, ONNX, (#CLASS)[0]},
    TENON_ELEMENT_TYPES(TENON_ELEMENT)
#undef TENON_ELEMENT
};
constexpr int kCount = sizeof(kRows) / sizeof(kRows[0]);
const Row &row(Element e) { return kRows[int(e)]; }
} // namespace

llvm::StringRef name(Element e) { return row(e).text; }
unsigned bitWidth(Element e) { return row(e).bits; }

Element computeElement(Element e) { return isFloat(e) && bitWidth(e) < 32 ? Element::F32 : e; }
char elementClass(Element e) { return row(e).kind; }
int onnxCode(Element e) { return row(e).onnx; }

llvm::Optional<Element> parseElement(llvm::StringRef text) {
  for (int i = 0; i < kCount; ++i)
    if (text == kRows[i].text)
      return Element(i);
  return llvm::None;
}

llvm::Optional<Element> elementFromOnnx(int code) {
  for (int i = 0; i < kCount; ++i)
    if (code == kRows[i].onnx)
      return Element(i);
  return llvm::None;
}

int64_t minInt(Element e) {
  if (isSignedInt(e))
    return bitWidth(e) == 64 ? std::numeric_limits<int64_t>::min()
                             : -(int64_t(1) << (bitWidth(e) - 1));
  return 0;
}

int64_t maxInt(Element e) {
  if (isBool(e))
    return 1;
  if (bitWidth(e) == 64)
    return std::numeric_limits<int64_t>::max();
  return (int64_t(1) << (bitWidth(e) - (isSignedInt(e) ? 1 : 0))) - 1;
}

} // namespace tenon
