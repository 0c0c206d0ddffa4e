// SPDX-License-Identifier: GPL-2.0-only
#include "translation.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "code_memory.h"
#include "instructions.h"

namespace {

using namespace x86;

constexpr int kMostInstructions = 48;  // of a block

// A list without allocations: a block may be translated in any step of an environment.
template <class T, std::size_t kMost>
class List {
 public:
  void add(const T& item) {
    assert(count_ < kMost);
    items_[count_++] = item;
  }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + count_; }

 private:
  std::array<T, kMost> items_;
  std::size_t count_ = 0;
};

// A lambda, likewise.
class Action {
 public:
  Action() = default;
  template <class Act>
  explicit Action(const Act& act) {
    static_assert(sizeof act <= kBytes && std::is_trivially_copyable_v<Act>);
    new (captures_) Act(act);
    call_ = [](const std::byte* captures) { (*reinterpret_cast<const Act*>(captures))(); };
  }
  void operator()() const { call_(captures_); }

 private:
  static constexpr std::size_t kBytes = 72;
  alignas(std::max_align_t) std::byte captures_[kBytes];
  void (*call_)(const std::byte* captures) = nullptr;
};

// Translates one block: instructions in sequence, up to a jump or one that is not translated. Its
// code is left early where a branch is taken, and before an instruction that would do something
// rare, which the interpreter then executes.
class Translation {
 public:
  Translation(const ProgramText& program, std::uint16_t pc, Assembler& code)
      : program_(program), code_(code), at_{.pc = pc} {}

  // False if there is nothing to run.
  bool translate() {
    code_.alu32(kCmp, SHOAL_FIELD(instructions_left), 0);
    auto* const number = code_.at() - 4;
    exits_.add({code_.jump_if(kBelow), at_, false});
    bool goes_on = true;
    while (goes_on && at_.instructions < kMostInstructions && fetch()) goes_on = execute();
    if (at_.instructions == 0) return false;
    if (goes_on) exit(at_, at_.instructions == kMostInstructions);
    for (const auto& each : later_) each();
    for (const auto& each : exits_) {
      code_.bind(each.from);
      exit(each.at, each.chained);
    }
    const auto count = static_cast<std::uint32_t>(at_.instructions);
    if (!code_.overflowed()) std::memcpy(number, &count, sizeof count);
    return !code_.overflowed();
  }

 private:
  // A place between two instructions, with what is not in the Machine yet.
  struct Place {
    std::uint16_t pc = 0;
    int instructions = 0;
    std::uint32_t cycles = 0;
    int opcode = -1, bus = -1;  // -1: as the Machine has it
  };
  struct Exit {
    Assembler::Jump from;
    Place at;
    bool chained;
  };

  const std::uint8_t* bytes_at(std::uint16_t pc) const {
    return program_.bytes.data() + static_cast<std::uint16_t>(pc - program_.begin);
  }
  // Whether the bytes [address, address + n) are the program's; only the lower 13 bits count.
  bool in_program(std::uint32_t address, std::size_t n = 1) const {
    return is_program(address) && place_of(address) + n <= program_.bytes.size();
  }
  std::size_t place_of(std::uint32_t address) const { return (address - program_.begin) & 0x1fff; }

  static Register register_of(On on) {
    return on == On::kIndexX ? kX : on == On::kIndexY ? kY : kA;
  }
  // Decodes the next instruction. False if it is not translated.
  bool fetch() {
    if (!program_.contains(at_.pc)) return false;
    const auto* const bytes = bytes_at(at_.pc);
    kind_ = kKinds[bytes[0]];
    on_ = register_of(kind_.on);
    const int length = bytes_of(kind_);
    if (kind_.what == Do::kUnknown ||
        !program_.contains(static_cast<std::uint16_t>(at_.pc + length - 1)))
      return false;
    operand_ = length == 1 ? 0 : length == 2 ? bytes[1] : bytes[1] | (bytes[2] << 8);
    if (!is_translated(bytes)) return false;
    before_ = at_;
    at_.opcode = bytes[0];
    at_.bus = bytes[length - 1];
    at_.pc = static_cast<std::uint16_t>(at_.pc + length);
    at_.cycles += program_.cycles[bytes[0]];
    ++at_.instructions;
    may_stop_ = false;
    return true;
  }

  bool is_translated(const std::uint8_t* bytes) const {
    const bool changes = kind_.what >= Do::kShiftLeft && kind_.what <= Do::kDecrement;
    switch (kind_.mode) {
      case Mode::kZeroPage:
        return !changes || operand_ >= 0x80;
      case Mode::kIndirectY:
        return operand_ >= 0x80 && operand_ < 0xff;
      case Mode::kAbsolute:
        if (changes) return is_ram(operand_);
        // The interpreter counts the rounds of a loop that waits for the timer.
        return kind_.what != Do::kLoad || (operand_ & 0x1285) != 0x0284 ||
               !program_.contains(static_cast<std::uint16_t>(at_.pc + 4)) || bytes[4] != 0xfb;
      default:
        break;
    }
    // The high byte comes from the same page.
    if (kind_.what == Do::kJumpThrough) return is_ram(operand_) && (operand_ & 0xff) != 0xff;
    return true;
  }

  // ---- Ways out ----

  void put_away(const Place& place) {
    if (place.cycles != 0) code_.alu32(kAdd, SHOAL_FIELD(cycles), place.cycles);
    if (place.instructions != 0)
      code_.alu(kSub, SHOAL_FIELD(instructions_left), static_cast<std::int8_t>(place.instructions));
    if (place.opcode >= 0)
      code_.store8(SHOAL_FIELD(opcode), static_cast<std::uint8_t>(place.opcode));
    if (place.bus >= 0) code_.store8(SHOAL_FIELD(bus), static_cast<std::uint8_t>(place.bus));
  }
  // Goes on at place.pc; if `chained` in translated code, where there is some.
  void exit(const Place& place, bool chained) {
    put_away(place);
    code_.mov(rax, std::uint32_t{place.pc});
    if (chained && program_.contains(place.pc)) {
      code_.jump_through(&program_.entries[static_cast<std::uint16_t>(place.pc - program_.begin)]);
    } else {
      code_.store16(SHOAL_FIELD(pc), rax);
      code_.jump(CodeMemory::get().leave);
    }
  }
  // Leaves the instruction to the interpreter.
  void give_up_if(Condition condition) { exits_.add({code_.jump_if(condition), before_, false}); }
  // `rare` is done if the condition is met, elsewhere in memory, and `usual` if not.
  template <class Rare, class Usual>
  void either(Condition condition, Rare rare, Usual usual) {
    auto* const there = code_.jump_if(condition);
    usual();
    auto* const back = code_.at();
    later_.add(Action([this, there, back, rare] {
      code_.bind(there);
      rare();
      code_.jump(back);
    }));
  }
  void leave_if_stopped() {
    code_.alu8(kCmp, SHOAL_FIELD(stops), 0);
    exits_.add({code_.jump_if(kNotZero), at_, false});
  }

  // ---- Calls ----

  template <class Function>
  void call(Function function) {
    code_.mov64(rdi, kMachine);
    code_.mov64(rax, reinterpret_cast<std::uint64_t>(function));
    code_.call(rax);
  }
  // The clock and the bus as a chip sees them, in code that may be passed by.
  template <class Call>
  void with_clock(const Place& place, bool bus_is_known, Call make_call) {
    if (place.cycles != 0) code_.alu32(kAdd, SHOAL_FIELD(cycles), place.cycles);
    if (bus_is_known) code_.store8(SHOAL_FIELD(bus), static_cast<std::uint8_t>(place.bus));
    make_call();
    if (place.cycles != 0) code_.alu32(kSub, SHOAL_FIELD(cycles), place.cycles);
  }
  // The address is in ecx, the byte comes to eax.
  void call_read(const Place& place, bool bus_is_known) {
    with_clock(place, bus_is_known, [this] {
      code_.mov(rsi, rcx);
      call(program_.chips.read);
    });
  }
  void call_write(const Place& place, Register value) {
    with_clock(place, false, [this, value] {
      code_.mov(rsi, rcx);
      code_.mov(rdx, value);
      call(program_.chips.write);
    });
  }

  // ---- Addresses ----

  Register index() const {
    return kind_.mode == Mode::kZeroPageX || kind_.mode == Mode::kAbsoluteX ? kX : kY;
  }
  // The address of an indexed instruction, in ecx. A read across a page takes a cycle more.
  void address(bool reads) {
    const auto by = index();
    switch (kind_.mode) {
      case Mode::kZeroPageX:
      case Mode::kZeroPageY:
        code_.lea(rcx, {by, operand_});
        code_.widen8(rcx, rcx);
        break;
      case Mode::kAbsoluteX:
      case Mode::kAbsoluteY:
        if (reads) count_page_crossed();
        code_.lea(rcx, {by, operand_});
        code_.widen16(rcx, rcx);
        break;
      case Mode::kIndirectX:
        code_.lea(rcx, {kX, operand_});
        code_.widen8(rcx, rcx);
        code_.lea(rdx, {rcx, -0x80});
        code_.alu(kCmp, rdx, 0x7eU);
        give_up_if(kAbove);
        code_.load16(rcx, {kRam, -0x80, rcx});
        put_pointer_on_bus();
        break;
      default:
        code_.load16(rcx, {kRam, operand_ - 0x80});
        if (reads) {
          code_.widen8(rdx, rcx);
          code_.alu(kAdd, rdx, kY);
          code_.shift(kRight, rdx, 8);
          code_.alu(kAdd, SHOAL_FIELD(cycles), rdx);
          put_pointer_on_bus();
        }
        code_.alu(kAdd, rcx, kY);
        code_.widen16(rcx, rcx);
    }
  }

  // An absolute address and an index.
  void count_page_crossed() {
    if ((operand_ & 0xff) == 0) return;
    code_.lea(rdx, {index(), operand_ & 0xff});
    code_.shift(kRight, rdx, 8);
    code_.alu(kAdd, SHOAL_FIELD(cycles), rdx);
  }

  // Its high byte, which was read last.
  void put_pointer_on_bus() {
    code_.mov(rdx, rcx);
    code_.shift(kRight, rdx, 8);
    code_.store8(SHOAL_FIELD(bus), rdx);
  }

  // ---- Operands ----

  // Brings the operand to eax.
  void read() {
    switch (kind_.mode) {
      case Mode::kImmediate:
        code_.mov(rax, std::uint32_t{operand_});
        return;
      case Mode::kZeroPage:
      case Mode::kAbsolute:
        read_at(operand_);
        break;
      case Mode::kZeroPageX:
      case Mode::kZeroPageY:
        address(true);
        code_.test8(rcx, 0x80);
        either(
            kZero, [this, at = at_] { call_read(at, true); },
            [this] {
              code_.load8(rax, {kRam, -0x80, rcx});
            });
        may_stop_ = true;
        break;
      case Mode::kAbsoluteX:
      case Mode::kAbsoluteY:
        if (in_program(operand_, 256)) {
          read_in_program();
        } else {
          address(true);
          read_program(true);
        }
        break;
      default:
        address(true);
        read_program(false);
    }
    keep_bus(rax);
  }
  void read_at(std::uint32_t address) {
    if (is_ram(address)) {
      code_.load8(rax, {kRam, static_cast<std::int32_t>(address & 0x7f)});
    } else if (in_program(address)) {
      code_.mov(rax, std::uint32_t{program_.bytes[place_of(address)]});
    } else {
      code_.mov(rcx, address);
      call_read(at_, true);
      may_stop_ = true;
    }
  }
  // The 256 bytes from the operand on are in the program.
  void read_in_program() {
    count_page_crossed();
    code_.load64(rcx, SHOAL_FIELD(program));
    code_.load8(rax, {rcx, static_cast<std::int32_t>(place_of(operand_)), index()});
  }
  // Most addresses that are computed are in the program.
  void read_program(bool bus_is_known) {
    code_.lea(rdx, {rcx, -static_cast<std::int32_t>(program_.begin & 0x1fff)});
    code_.alu(kAnd, rdx, 0x1fffU);
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(program_.bytes.size()));
    either(
        kNotBelow, [this, at = at_, bus_is_known] { call_read(at, bus_is_known); },
        [this] {
          code_.load64(rcx, SHOAL_FIELD(program));
          code_.load8(rax, {rcx, 0, rdx});
        });
    may_stop_ = true;
  }
  void keep_bus(Register value) {
    code_.store8(SHOAL_FIELD(bus), value);
    at_.bus = -1;
  }

  void write(Register value) {
    at_.bus = -1;
    const bool direct = kind_.mode == Mode::kZeroPage || kind_.mode == Mode::kAbsolute;
    if (direct && is_ram(operand_)) {
      code_.store8({kRam, operand_ & 0x7f}, value);
      code_.store8(SHOAL_FIELD(bus), value);
    } else if (direct && is_tia(operand_)) {
      code_.alu32(kAdd, SHOAL_FIELD(cycles), at_.cycles);
      at_.cycles = 0;
      code_.mov(rsi, value);
      call(program_.chips.write_tia[operand_ & 0x3f]);
      may_stop_ = true;
    } else if (direct) {
      code_.mov(rcx, std::uint32_t{operand_});
      call_write(at_, value);
      may_stop_ = true;
    } else {
      address(false);
      if (kind_.mode == Mode::kZeroPageX || kind_.mode == Mode::kZeroPageY) {
        code_.test8(rcx, 0x80);
        either(
            kZero, [this, at = at_, value] { call_write(at, value); },
            [this, value] {
              code_.store8({kRam, -0x80, rcx}, value);
            });
      } else {
        code_.mov(rdx, rcx);
        code_.alu(kAnd, rdx, 0x1280U);
        code_.alu(kCmp, rdx, 0x80U);
        either(
            kNotZero, [this, at = at_, value] { call_write(at, value); },
            [this, value] {
              code_.alu(kAnd, rcx, 0x7fU);
              code_.store8({kRam, 0, rcx}, value);
            });
      }
      code_.store8(SHOAL_FIELD(bus), value);
      may_stop_ = true;
    }
  }

  // ---- Operations ----

  void show(Register value) { code_.mov(kResult, value); }
  void set_carry(Condition condition) { code_.set(condition, SHOAL_FIELD(carry)); }
  // The machine's carry.
  void load_carry() {
    code_.load8(rcx, SHOAL_FIELD(carry));
    code_.alu8(kAdd, rcx, std::uint8_t{0xff});
  }

  void change(Register byte) {
    switch (kind_.what) {
      case Do::kShiftLeft:
        code_.alu8(kAdd, byte, byte);
        set_carry(kBelow);
        break;
      case Do::kRotateLeft:
        load_carry();
        code_.alu8(kAdc, byte, byte);
        set_carry(kBelow);
        break;
      case Do::kShiftRight:
        code_.shift8(kRight, byte);
        set_carry(kBelow);
        break;
      case Do::kRotateRight:
        load_carry();
        code_.shift8(kRotateRight, byte);
        set_carry(kBelow);
        break;
      case Do::kIncrement:
        code_.alu8(kAdd, byte, std::uint8_t{1});
        break;
      default:
        code_.alu8(kSub, byte, std::uint8_t{1});
    }
    code_.widen8(kResult, byte);
  }

  void change_memory() {
    Memory place{kRam, operand_ & 0x7f};
    if (kind_.mode == Mode::kZeroPageX) {
      code_.lea(rdx, {kX, operand_});
      code_.widen8(rdx, rdx);
      code_.test8(rdx, 0x80);
      give_up_if(kZero);
      place = {kRam, -0x80, rdx};
    }
    code_.load8(rax, place);
    change(rax);
    code_.store8(place, rax);
    keep_bus(rax);
  }

  void operate() {
    switch (kind_.what) {
      case Do::kOr:
        code_.alu(kOr, kA, rax);
        break;
      case Do::kAnd:
        code_.alu(kAnd, kA, rax);
        break;
      case Do::kXor:
        code_.alu(kXor, kA, rax);
        break;
      case Do::kAdd:
        load_carry();
        code_.alu8(kAdc, kA, rax);
        set_carry(kBelow);
        code_.set(kOverflow, SHOAL_FIELD(overflow));
        break;
      case Do::kSubtract:
        code_.alu8(kCmp, SHOAL_FIELD(carry), 1);
        code_.alu8(kSbb, kA, rax);
        set_carry(kNotBelow);
        code_.set(kOverflow, SHOAL_FIELD(overflow));
        break;
      case Do::kCompare:
        code_.mov(rcx, on_);
        code_.alu8(kSub, rcx, rax);
        set_carry(kNotBelow);
        code_.widen8(kResult, rcx);
        return;
      case Do::kTestBits:
        code_.mov(rcx, rax);
        code_.alu(kAnd, rcx, 0x80U);
        code_.shift(kLeft, rcx, 8);
        code_.mov(kResult, kA);
        code_.alu(kAnd, kResult, rax);
        code_.alu(kOr, kResult, rcx);
        code_.test8(rax, 0x40);
        code_.set(kNotZero, SHOAL_FIELD(overflow));
        return;
      default:  // kLoad
        code_.mov(on_, rax);
    }
    show(on_);
  }

  void branch() {
    const auto opcode = at_.opcode;
    switch (opcode >> 6) {
      case 0:
        code_.test(kResult, 0x8080);
        break;
      case 1:
        code_.alu8(kCmp, SHOAL_FIELD(overflow), 0);
        break;
      case 2:
        code_.alu8(kCmp, SHOAL_FIELD(carry), 0);
        break;
      default:
        code_.test8(kResult, kResult);
    }
    bool if_set = (opcode & 0x20) != 0;
    if (opcode >> 6 == 3) if_set = !if_set;  // Z is set if the result is zero
    Place there = at_;
    there.pc = static_cast<std::uint16_t>(at_.pc + static_cast<std::int8_t>(operand_));
    there.cycles += ((there.pc ^ at_.pc) & 0xff00) != 0 ? 2 : 1;
    auto* const taken = code_.jump_if(if_set ? kNotZero : kZero);
    const auto from = static_cast<std::uint16_t>(at_.pc - 2);
    const int counts = operand_ == 0xfd && from != program_.begin ? bytes_at(from)[-1] : 0;
    const bool is_loop = (opcode == 0xd0 || opcode == 0x10) && (counts == 0xca || counts == 0x88);
    if (!is_loop) {
      exits_.add({taken, there, true});
      return;
    }
    const int cycles = static_cast<int>(there.cycles - at_.cycles) + 4;  // of a round
    later_.add(Action(
        [this, taken, there, cycles, by = counts == 0xca ? kX : kY, to_zero = opcode == 0xd0] {
          code_.bind(taken);
          skip_rounds(by, to_zero, there.instructions, cycles);
          exit(there, true);
        }));
  }
  // Back to DEX or DEY, the rounds of the loop are counted until the last, as far as instructions
  // may be executed.
  void skip_rounds(Register by, bool to_zero, int instructions, int cycles) {
    code_.alu8(kCmp, by, kResult);
    auto* const other = code_.jump_if(kNotZero);
    code_.lea(rcx, {by, to_zero ? -1 : 0});
    code_.load(rdx, SHOAL_FIELD(instructions_left));
    code_.alu(kSub, rdx, static_cast<std::uint32_t>(instructions));
    code_.shift(kRight, rdx, 1);
    code_.alu(kCmp, rcx, rdx);
    auto* const enough = code_.jump_if(kBelow);
    code_.mov(rcx, rdx);
    code_.bind(enough);
    code_.test(rcx, 0xffffffff);
    auto* const none = code_.jump_if(kZero);
    code_.alu(kSub, by, rcx);
    show(by);
    code_.lea(rdx, {rcx, 0, rcx});
    code_.alu(kSub, SHOAL_FIELD(instructions_left), rdx);
    for (int i = 0; i < cycles; ++i) code_.alu(kAdd, SHOAL_FIELD(cycles), rcx);
    code_.bind(none);
    code_.bind(other);
  }

  // Writes a register to the stack, which may be where the chips are.
  void push(Register value) {
    code_.load8(rcx, SHOAL_FIELD(sp));
    code_.test8(rcx, 0x80);
    at_.bus = -1;
    either(
        kZero,
        [this, at = at_, value] {
          code_.alu(kOr, rcx, 0x100U);
          call_write(at, value);
        },
        [this, value] {
          code_.store8({kRam, -0x80, rcx}, value);
          code_.store8(SHOAL_FIELD(bus), value);
        });
    code_.alu8(kSub, SHOAL_FIELD(sp), 1);
    may_stop_ = true;
  }
  void push_status() {
    code_.mov(rax, 0x20U);
    const auto add_flag = [&](Memory flag, std::uint8_t bit) {
      code_.load8(rcx, flag);
      if (bit != 0) code_.shift(kLeft, rcx, bit);
      code_.alu(kOr, rax, rcx);
    };
    add_flag(SHOAL_FIELD(carry), 0), add_flag(SHOAL_FIELD(no_interrupts), 2),
        add_flag(SHOAL_FIELD(decimal), 3);
    add_flag(SHOAL_FIELD(with_break), 4), add_flag(SHOAL_FIELD(overflow), 6);
    code_.mov(rcx, kResult);
    code_.shift(kRight, rcx, 8);
    code_.alu(kOr, rcx, kResult);
    code_.alu(kAnd, rcx, 0x80U);
    code_.alu(kOr, rax, rcx);
    code_.widen8(rcx, kResult);  // 1 less is negative only if it is zero
    code_.alu(kSub, rcx, 1U);
    code_.shift(kRight, rcx, 31);
    code_.lea(rax, {rax, 0, rcx, 1});
    push(rax);
  }

  // The stack pointer, in ecx, if it and the `n` bytes above or below are in RAM.
  void stack(int lowest, int n) {
    code_.load8(rcx, SHOAL_FIELD(sp));
    code_.lea(rdx, {rcx, -lowest});
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(0x7f - n));
    give_up_if(kAbove);
  }
  void pull() {
    code_.load8(rcx, SHOAL_FIELD(sp));
    code_.lea(rdx, {rcx, -0x80});
    code_.alu(kCmp, rdx, 0x7eU);
    either(
        kAbove, [this, at = at_] { slow_pull(at); },
        [this] {
          code_.load8(rax, {kRam, -0x7f, rcx});
        });
    code_.alu8(kAdd, SHOAL_FIELD(sp), 1);
    code_.mov(kA, rax);
    show(kA);
    keep_bus(kA);
    may_stop_ = true;
  }
  // Reads where the stack is, too.
  void slow_pull(const Place& at) {
    code_.alu(kOr, rcx, 0x100U);
    call_read(at, true);
    code_.load8(rcx, SHOAL_FIELD(sp));
    code_.alu8(kAdd, rcx, std::uint8_t{1});
    code_.alu(kOr, rcx, 0x100U);
    call_read(at, false);
  }
  bool jump(std::uint16_t to) {
    at_.pc = to;
    exit(at_, true);
    return false;
  }
  bool call_routine() {
    stack(0x81, 1);
    const auto from = static_cast<std::uint16_t>(at_.pc - 1);
    code_.store8({kRam, -0x80, rcx}, static_cast<std::uint8_t>(from >> 8));
    code_.store8({kRam, -0x81, rcx}, static_cast<std::uint8_t>(from));
    code_.alu8(kSub, SHOAL_FIELD(sp), 2);
    return jump(operand_);
  }
  // To the byte behind the address on the stack, which is the last of the call, and is read.
  bool return_from_routine() {
    stack(0x80, 2);
    code_.load16(rax, {kRam, -0x7f, rcx});
    code_.lea(rdx, {rax, -static_cast<std::int32_t>(program_.begin)});
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(program_.bytes.size() - 1));
    give_up_if(kNotBelow);
    code_.alu8(kAdd, SHOAL_FIELD(sp), 2);
    code_.load64(rcx, SHOAL_FIELD(program));
    code_.load8(rcx, {rcx, 0, rdx});
    code_.store8(SHOAL_FIELD(bus), rcx);
    at_.bus = -1;
    put_away(at_);
    code_.alu(kAdd, rax, 1U);
    code_.mov64(rcx, reinterpret_cast<std::uint64_t>(program_.entries + 1));
    code_.jump({rcx, 0, rdx, 3});
    return false;
  }
  bool jump_through() {
    code_.load16(rax, {kRam, operand_ & 0x7f});
    code_.mov(rdx, rax);
    code_.shift(kRight, rdx, 8);
    code_.store8(SHOAL_FIELD(bus), rdx);
    at_.bus = -1;
    put_away(at_);
    code_.lea(rdx, {rax, -static_cast<std::int32_t>(program_.begin)});
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(program_.bytes.size()));
    auto* const outside = code_.jump_if(kNotBelow);
    code_.mov64(rcx, reinterpret_cast<std::uint64_t>(program_.entries));
    code_.jump({rcx, 0, rdx, 3});
    code_.bind(outside);
    code_.store16(SHOAL_FIELD(pc), rax);
    code_.jump(CodeMemory::get().leave);
    return false;
  }

  // False if the block ends.
  bool execute() {
    switch (kind_.what) {
      case Do::kNothing:
        break;
      case Do::kStore:
        write(on_);
        break;
      case Do::kShiftLeft:
      case Do::kShiftRight:
      case Do::kRotateLeft:
      case Do::kRotateRight:
      case Do::kIncrement:
      case Do::kDecrement:
        if (kind_.mode == Mode::kImplied)
          change(on_);
        else
          change_memory();
        break;
      case Do::kCopy:
        if (kind_.from == On::kStackPointer) {
          code_.load8(on_, SHOAL_FIELD(sp));
          show(on_);
        } else if (kind_.on == On::kStackPointer) {
          code_.store8(SHOAL_FIELD(sp), register_of(kind_.from));
        } else {
          code_.mov(on_, register_of(kind_.from));
          show(on_);
        }
        break;
      case Do::kSetCarry:
        code_.store8(SHOAL_FIELD(carry), static_cast<std::uint8_t>(kind_.value));
        break;
      case Do::kSetDecimal:
        code_.store8(SHOAL_FIELD(decimal), static_cast<std::uint8_t>(kind_.value));
        break;
      case Do::kSetInterrupts:
        code_.store8(SHOAL_FIELD(no_interrupts), static_cast<std::uint8_t>(kind_.value));
        break;
      case Do::kClearOverflow:
        code_.store8(SHOAL_FIELD(overflow), std::uint8_t{0});
        break;
      case Do::kPush:
        push(kA);
        break;
      case Do::kPushStatus:
        push_status();
        break;
      case Do::kPull:
        pull();
        break;
      case Do::kBranch:
        branch();
        break;
      case Do::kJump:
        return jump(operand_);
      case Do::kJumpThrough:
        return jump_through();
      case Do::kCall:
        return call_routine();
      case Do::kReturn:
        return return_from_routine();
      case Do::kAdd:
      case Do::kSubtract:
        code_.alu8(kCmp, SHOAL_FIELD(decimal), 0);
        give_up_if(kNotZero);
        [[fallthrough]];
      default:
        read();
        operate();
    }
    if (may_stop_) leave_if_stopped();
    return true;
  }

  const ProgramText& program_;
  Assembler& code_;
  Place at_, before_;
  Kind kind_;
  Register on_ = kA;  // of kind_.on
  std::uint16_t operand_ = 0;
  bool may_stop_ = false;                    // the instruction may have reached a chip
  List<Exit, 4 * kMostInstructions> exits_;  // an instruction has at most three
  List<Action, kMostInstructions> later_;
};

}  // namespace

bool translate(const ProgramText& program, std::uint16_t pc, Assembler& code) {
  return Translation(program, pc, code).translate();
}
