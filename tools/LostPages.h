// Defines how the command ends when a file that it has mapped gets shorter.
#pragma once

#include <csignal>

namespace tenon {

/// While it lives, an access to pages that a mapped file no longer has ends the process:
/// temporaries are removed, a message names the file, the status is 1. Crash handlers installed
/// later lie above, and need another one; other bus errors go on to the handler before.
class LostPagesReport {
public:
  LostPagesReport();
  LostPagesReport(const LostPagesReport &) = delete;
  ~LostPagesReport();

private:
  struct sigaction before_ = {};
  const struct sigaction *outer_;
};

} // namespace tenon
