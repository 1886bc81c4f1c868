// Defines how a program of others is asked something: nvidia-smi, a compiler for its version.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

/// What a program says, both streams, without the last line's end; None when it cannot be run,
/// fails or takes more than 30 s. It goes through a pipe: no file is written.
llvm::Optional<std::string> outputOf(llvm::StringRef program,
                                     llvm::ArrayRef<llvm::StringRef> words);

} // namespace tenon
