// Implements reading and writing of .tn files, and diagnostics with carets into their text.
#include "ir/Text.h"

#include "ir/NearFile.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {

void printWithCarets(const Diagnostics &diagnostics, const llvm::MemoryBuffer &buffer,
                     llvm::raw_ostream &os) {
  llvm::SourceMgr manager;
  manager.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(buffer.getMemBufferRef(), /*RequiresNullTerminator=*/false),
      llvm::SMLoc());
  Diagnostics plain;
  for (const Diagnostic &d : diagnostics.list()) {
    if (!d.where.isValid()) {
      plain.report(d.severity, d.message) = d;
      continue;
    }
    const auto kind = d.severity == Severity::Error     ? llvm::SourceMgr::DK_Error
                      : d.severity == Severity::Warning ? llvm::SourceMgr::DK_Warning
                                                        : llvm::SourceMgr::DK_Remark;
    manager.PrintMessage(os, d.where, kind, d.message, {}, {}, /*ShowColors=*/false);
    for (const std::string &n : d.notes)
      os << "note: " << n << '\n';
  }
  plain.print(os);
}

/// Whether a file is no text at all, of which a line shows nothing to a person.
static bool isBinary(llvm::StringRef bytes) {
  auto *begin = reinterpret_cast<const llvm::UTF8 *>(bytes.begin());
  return bytes.contains('\0') || !llvm::isLegalUTF8String(&begin, begin + bytes.size());
}

std::unique_ptr<Module> readModule(Context &context, llvm::StringRef path, Diagnostics &diagnostics,
                                   ModuleCheck check) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    diagnostics.error("cannot read '" + path.str() + "': " + buffer.getError().message() +
                      nearFile(path));
    return nullptr;
  }
  auto data = llvm::MemoryBuffer::getFile(path + ".data", /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  return readModule(context, **buffer, data ? (*data)->getBuffer() : llvm::StringRef(), path,
                    diagnostics, check);
}

std::unique_ptr<Module> readModule(Context &context, const llvm::MemoryBuffer &buffer,
                                   llvm::StringRef data, llvm::StringRef name,
                                   Diagnostics &diagnostics, ModuleCheck check) {
  Diagnostics local;
  auto m = parseModule(context, buffer, data, local, check);
  if (local.list().empty())
    return m;
  if (!m && isBinary(buffer.getBuffer())) {
    diagnostics.error("cannot parse '" + name.str() +
                      "': expected Tenon's text (a .tn file), found a binary file");
    return m;
  }
  // Carets need the buffer, which dies here: the text goes into the message.
  std::string text;
  llvm::raw_string_ostream os(text);
  printWithCarets(local, buffer, os);
  os.flush();
  if (m)
    diagnostics.warning(text);
  else
    diagnostics.error("cannot parse '" + name.str() + "'\n" + llvm::StringRef(text).rtrim().str());
  return m;
}

namespace {
bool writeFile(llvm::StringRef path, llvm::StringRef bytes, Diagnostics &diagnostics) {
  const std::string temporary = path.str() + ".tmp";
  std::error_code code;
  {
    llvm::raw_fd_ostream os(temporary, code);
    if (!code) {
      os << bytes;
      os.close();
      code = os.error();
      os.clear_error();
    }
  }
  if (!code)
    code = llvm::sys::fs::rename(temporary, path);
  if (code) {
    llvm::sys::fs::remove(temporary);
    diagnostics.error("cannot write '" + path.str() + "': " + code.message());
  }
  return !code;
}
} // namespace

bool writeModule(const Module &module, llvm::StringRef path, Diagnostics &diagnostics) {
  std::string text, data;
  PrintOptions options;
  options.data = &data;
  {
    llvm::raw_string_ostream os(text);
    print(module, os, options);
  }
  if (path == "-") {
    llvm::outs() << toString(module);
    return true;
  }
  if (!data.empty() && !writeFile((path + ".data").str(), data, diagnostics))
    return false;
  return writeFile(path, text, diagnostics);
}

} // namespace tenon
