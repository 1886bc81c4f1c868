// The `tenon` command: declares the subcommands, parses the command line, runs the chosen one.
#include "driver/Commands.h"
#include "driver/Options.h"
#include "tools/LostPages.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <exception>

namespace {

constexpr const char *kSummary =
    "Compiles one ONNX model to one C++ or CUDA file that needs nothing but a compiler.";

constexpr const char *kFooter =
    "\nMODEL is an .onnx file, or a .tn file of any stage: the work goes on from there.\n"
    "`tenon COMMAND --help` lists the options of one command.\n\n"
    "Exit status: 0 done (and outputs matched, where compared); 1 the model or input cannot be\n"
    "handled, or a comparison failed; 2 wrong usage; 3 a defect of tenon.\n\n"
    "Environment: CXX, NVCC and CUOBJDUMP name the compilers and the disassembler; TENON_RUN_WITH "
    "a\n"
    "command that built programs run under, such as an emulator; NO_COLOR switches colours off.";

} // namespace

/// What could not be written to standard output is an error like that of any other file.
static int closeStandardOutput(int status) {
  llvm::outs().flush();
  const std::error_code code = llvm::outs().error();
  llvm::outs().clear_error();
  if (code) {
    llvm::errs() << "error: cannot write standard output: " << code.message() << '\n';
    if (status == tenon::Done)
      status = tenon::Failed;
  }
  llvm::errs().clear_error();
  return status;
}

int main(int argc, char **argv) {
  using namespace tenon;
  // A descriptor closed by the caller must not become that of a file written here.
  if (std::error_code code = llvm::sys::Process::FixupStandardFileDescriptors()) {
    llvm::errs() << "error: " << code.message() << '\n';
    return Failed;
  }
  const LostPagesReport lostPages;
  try {
    return closeStandardOutput(runCommandLine(argc, argv, kSummary, kFooter, "tenon " TENON_VERSION,
                                              Usage, Failed, [](CommandLine &root) {
                                                for (auto declare : kCommands)
                                                  declare(root);
                                              }));
  } catch (const std::exception &e) { // memory, mostly: nothing of ours throws
    llvm::errs() << "error: " << e.what() << '\n';
    return Failed;
  }
}
