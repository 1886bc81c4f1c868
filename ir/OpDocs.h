// Declares the generator of docs/ops.md.
#pragma once

namespace llvm {
class raw_ostream;
}

namespace tenon {

/// Writes the reference of all operations, from the tables, as Markdown.
void printOpDocs(llvm::raw_ostream &os);

} // namespace tenon
