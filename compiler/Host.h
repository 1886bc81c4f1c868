// Defines CompilerHost: what whoever runs a compiler sees of it while it works, and does when it
// fails. The library itself prints nothing, writes no file and installs no handler.
#pragma once

#include "ir/Diagnostics.h"

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/STLExtras.h"

namespace tenon {

class CompilerHost {
public:
  virtual ~CompilerHost() = default;

  /// What is being done from now on, in a word or two.
  virtual void progress(llvm::StringRef) {}
  /// Nothing is any more.
  virtual void endProgress() {}
  /// Where options that print write (--print-after, --time-passes); null: nowhere.
  virtual llvm::raw_ostream *printed() { return nullptr; }
  /// Runs a step. A host that outlives a crash of it answers the crash's number; this one does not.
  virtual llvm::Optional<int> survive(llvm::function_ref<void()> step) {
    return step(), llvm::None;
  }
  /// Keeps a module of the model at `path` that shows a failure; `command` is how a person sees it
  /// again, with FILE for the module's file. Says where it went.
  virtual void keep(const Module &, llvm::StringRef /*path*/, llvm::StringRef /*command*/,
                    Diagnostics &) {}
  /// Keeps a copy of the model itself.
  virtual void keepModel(llvm::StringRef /*path*/, Diagnostics &) {}
};

} // namespace tenon
