// Implements the table of microcontrollers that are targets by their own names.
#include "codegen/core/Chips.h"

#include "codegen/mcu/Family.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Flash and memories: Zephyr's device trees (dts/arm/*/stm32h743.dtsi and so on), for STM32H563 and
// L552 PlatformIO's boards and pystlink's table; one piece where addresses follow each other.
// Highest clocks: f_cpu of PlatformIO's boards; of i.MX RT1062, nRF5340, RP2350 and STM32U585
// Zephyr's documents; of STM32H7 (480 MHz, revision V) and L5 their makers' titles, as quoted
// there. Left out: backup and instruction memories.
const Chip kChips[] = {
    {"nrf52840", "cortex-m4", 64, "Nordic nRF52840", kMiB, {{"ram", 256 * kKiB}}},
    {"samd51j20", "cortex-m4", 120, "Microchip SAM D51", kMiB, {{"ram", 256 * kKiB}}},
    {"stm32l476",
     "cortex-m4",
     80,
     "ST STM32L476",
     kMiB,
     {{"sram1", 96 * kKiB}, {"sram2", 32 * kKiB}}},
    {"stm32f407",
     "cortex-m4",
     168,
     "ST STM32F407",
     kMiB,
     {{"sram", 128 * kKiB}, {"ccm", 64 * kKiB}}},
    {"stm32f446", "cortex-m4", 180, "ST STM32F446", 512 * kKiB, {{"sram", 128 * kKiB}}},
    {"stm32g474",
     "cortex-m4",
     170,
     "ST STM32G474",
     512 * kKiB,
     {{"sram", 128 * kKiB}}}, // its last 32 KiB are the CCM under their second address
    {"stm32f746",
     "cortex-m7",
     216,
     "ST STM32F746",
     kMiB,
     {{"sram", 256 * kKiB}, {"dtcm", 64 * kKiB}}},
    {"stm32h743",
     "cortex-m7",
     480,
     "ST STM32H743",
     2 * kMiB,
     {{"axi", 512 * kKiB}, {"sram", 288 * kKiB}, {"sram4", 64 * kKiB}, {"dtcm", 128 * kKiB}}},
    {"stm32h747",
     "cortex-m7",
     480,
     "ST STM32H747, its Cortex-M7",
     2 * kMiB,
     {{"axi", 512 * kKiB}, {"sram", 288 * kKiB}, {"sram4", 64 * kKiB}, {"dtcm", 128 * kKiB}}},
    // The 256 KiB that FlexRAM gives it follow the 512 KiB of its own.
    {"imxrt1062", "cortex-m7", 600, "NXP i.MX RT1062", 0, {{"ocram", 768 * kKiB}}},
    {"rp2350", "cortex-m33", 150, "Raspberry Pi RP2350, its Cortex-M33", 0, {{"sram", 520 * kKiB}}},
    {"nrf5340",
     "cortex-m33",
     128,
     "Nordic nRF5340, its application core",
     kMiB,
     {{"ram", 512 * kKiB}}},
    {"stm32l552", "cortex-m33", 110, "ST STM32L552", 512 * kKiB, {{"sram", 256 * kKiB}}},
    {"stm32u585", "cortex-m33", 160, "ST STM32U585", 2 * kMiB, {{"sram", 768 * kKiB}}},
    {"stm32h563", "cortex-m33", 250, "ST STM32H563", 2 * kMiB, {{"sram", 640 * kKiB}}},
};

} // namespace

const ChipMemory *Chip::memory(llvm::StringRef called) const {
  const auto m = llvm::find_if(memories, [&](const ChipMemory &m) { return m.name == called; });
  return m == memories.end() ? nullptr : &*m;
}

const ChipMemory &Chip::largest() const {
  return *std::max_element(
      memories.begin(), memories.end(),
      [](const ChipMemory &a, const ChipMemory &b) { return a.bytes < b.bytes; });
}

llvm::ArrayRef<Chip> chips() { return kChips; }

const Chip *chipOf(const TargetLevel &level) {
  if (level.family == &mcu::kFamily && !level.device.empty())
    for (const Chip &c : kChips)
      if (c.name == level.device)
        return &c;
  return nullptr;
}

} // namespace tenon
