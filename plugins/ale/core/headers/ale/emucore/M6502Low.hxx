// SPDX-License-Identifier: GPL-2.0-only
// The console's processor for ALE, in place of ALE's class: this folder is in the include path
// before ALE's.
#ifndef SHOAL_PLUGINS_ALE_CORE_HEADERS_ALE_EMUCORE_M6502LOW_HXX_
#define SHOAL_PLUGINS_ALE_CORE_HEADERS_ALE_EMUCORE_M6502LOW_HXX_

#include <array>
#include <cstddef>
#include <cstdint>

#include "ale/emucore/M6502.hxx"

class Program;

namespace ale::stella {

class Deserializer;
class Serializer;

class M6502Low : public M6502 {
 public:
  explicit M6502Low(uint32_t systemCyclesPerProcessorCycle);
  ~M6502Low() override;

  bool execute(uint32_t number) override;
  bool save(Serializer& out) override;
  bool load(Deserializer& in) override;
  const char* name() const override;

 private:
  // Memory that the processor has run in, and its translation; null: it is interpreted.
  struct Known {
    std::uintptr_t memory = 0, origin = 0;
    std::size_t size = 0;
    Program* program = nullptr;
  };
  Program* program_in(const Known& window);

  std::array<Known, 8> known_;
  std::size_t oldest_ = 0;  // of known_
};

}  // namespace ale::stella

#endif  // SHOAL_PLUGINS_ALE_CORE_HEADERS_ALE_EMUCORE_M6502LOW_HXX_
