// Defines how amounts of memory are written for people.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

/// "384 B", "64.6 KiB", "512 KiB", "2.1 MiB", "3.4 GiB": bytes themselves below 10 KiB, whole
/// amounts without a decimal.
std::string formatBytes(int64_t bytes);

} // namespace tenon
