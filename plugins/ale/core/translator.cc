// SPDX-License-Identifier: GPL-2.0-only
#include "translator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>

#include "assembler.h"

namespace {

using namespace x86;

// ---- Instructions ----

enum class Do : std::uint8_t {
  kUnknown, kNothing, kLoad, kStore, kOr, kAnd, kXor, kAdd, kSubtract, kCompare, kTestBits,
  kShiftLeft, kShiftRight, kRotateLeft, kRotateRight, kIncrement, kDecrement,
  kCopy, kSetCarry, kSetDecimal, kSetInterrupts, kClearOverflow,
  kPush, kPushStatus, kPull, kBranch, kJump, kJumpThrough, kCall, kReturn
};
enum class Mode : std::uint8_t {
  kImplied, kImmediate, kZeroPage, kZeroPageX, kZeroPageY, kAbsolute, kAbsoluteX, kAbsoluteY,
  kIndirectX, kIndirectY
};

constexpr Register kA = r12, kX = r13, kY = r14, kResult = rbp, kRam = r15, kMachine = rbx;

struct Kind {
  Do what = Do::kUnknown;
  Mode mode = Mode::kImplied;
  Register on = kA;    // the register that is loaded, stored, compared, changed or copied to
  Register from = kA;  // of kCopy
  int value = 0;       // of a flag
};

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> k{};
  // The columns of the instructions on A.
  constexpr struct {
    int low;
    Mode mode;
  } kColumns[] = {{0x01, Mode::kIndirectX}, {0x05, Mode::kZeroPage},  {0x09, Mode::kImmediate}, {0x0d, Mode::kAbsolute},
                  {0x11, Mode::kIndirectY}, {0x15, Mode::kZeroPageX}, {0x19, Mode::kAbsoluteY},
                  {0x1d, Mode::kAbsoluteX}};
  constexpr Do kOnA[8] = {Do::kOr,    Do::kAnd,  Do::kXor,     Do::kAdd,
                          Do::kStore, Do::kLoad, Do::kCompare, Do::kSubtract};
  for (int row = 0; row < 8; ++row)
    for (const auto& column : kColumns)
      if (row != 4 || column.low != 0x09) k[32 * row + column.low] = {kOnA[row], column.mode};
  constexpr Do kChanges[8] = {Do::kShiftLeft,   Do::kRotateLeft, Do::kShiftRight, Do::kRotateRight,
                              Do::kUnknown,     Do::kUnknown,    Do::kDecrement,  Do::kIncrement};
  for (int row = 0; row < 8; ++row) {
    if (row == 4 || row == 5) continue;
    k[32 * row + 0x06] = {kChanges[row], Mode::kZeroPage};
    k[32 * row + 0x16] = {kChanges[row], Mode::kZeroPageX};
    k[32 * row + 0x0e] = {kChanges[row], Mode::kAbsolute};
    if (row < 4) k[32 * row + 0x0a] = {kChanges[row], Mode::kImplied};
  }
  k[0xa2] = {Do::kLoad, Mode::kImmediate, kX}, k[0xa6] = {Do::kLoad, Mode::kZeroPage, kX};
  k[0xb6] = {Do::kLoad, Mode::kZeroPageY, kX}, k[0xae] = {Do::kLoad, Mode::kAbsolute, kX};
  k[0xbe] = {Do::kLoad, Mode::kAbsoluteY, kX};
  k[0xa0] = {Do::kLoad, Mode::kImmediate, kY}, k[0xa4] = {Do::kLoad, Mode::kZeroPage, kY};
  k[0xb4] = {Do::kLoad, Mode::kZeroPageX, kY}, k[0xac] = {Do::kLoad, Mode::kAbsolute, kY};
  k[0xbc] = {Do::kLoad, Mode::kAbsoluteX, kY};
  k[0x86] = {Do::kStore, Mode::kZeroPage, kX}, k[0x96] = {Do::kStore, Mode::kZeroPageY, kX};
  k[0x8e] = {Do::kStore, Mode::kAbsolute, kX};
  k[0x84] = {Do::kStore, Mode::kZeroPage, kY}, k[0x94] = {Do::kStore, Mode::kZeroPageX, kY};
  k[0x8c] = {Do::kStore, Mode::kAbsolute, kY};
  k[0xe0] = {Do::kCompare, Mode::kImmediate, kX}, k[0xe4] = {Do::kCompare, Mode::kZeroPage, kX};
  k[0xec] = {Do::kCompare, Mode::kAbsolute, kX};
  k[0xc0] = {Do::kCompare, Mode::kImmediate, kY}, k[0xc4] = {Do::kCompare, Mode::kZeroPage, kY};
  k[0xcc] = {Do::kCompare, Mode::kAbsolute, kY};
  k[0x24] = {Do::kTestBits, Mode::kZeroPage}, k[0x2c] = {Do::kTestBits, Mode::kAbsolute};
  k[0xe8] = {Do::kIncrement, Mode::kImplied, kX}, k[0xca] = {Do::kDecrement, Mode::kImplied, kX};
  k[0xc8] = {Do::kIncrement, Mode::kImplied, kY}, k[0x88] = {Do::kDecrement, Mode::kImplied, kY};
  k[0xaa] = {Do::kCopy, Mode::kImplied, kX, kA}, k[0xa8] = {Do::kCopy, Mode::kImplied, kY, kA};
  k[0x8a] = {Do::kCopy, Mode::kImplied, kA, kX}, k[0x98] = {Do::kCopy, Mode::kImplied, kA, kY};
  k[0xba] = {Do::kCopy, Mode::kImplied, kX, no_register};  // the stack pointer
  k[0x9a] = {Do::kCopy, Mode::kImplied, no_register, kX};
  k[0x18] = {Do::kSetCarry}, k[0x38] = {.what = Do::kSetCarry, .value = 1};
  k[0xd8] = {Do::kSetDecimal}, k[0xf8] = {.what = Do::kSetDecimal, .value = 1};
  k[0x58] = {Do::kSetInterrupts}, k[0x78] = {.what = Do::kSetInterrupts, .value = 1};
  k[0xb8] = {Do::kClearOverflow};
  k[0x48] = {Do::kPush}, k[0x08] = {Do::kPushStatus}, k[0x68] = {Do::kPull};
  for (int condition = 0; condition < 8; ++condition) k[0x10 + 32 * condition] = {Do::kBranch};
  k[0x4c] = {Do::kJump}, k[0x6c] = {Do::kJumpThrough}, k[0x20] = {Do::kCall}, k[0x60] = {Do::kReturn};
  k[0xea] = {Do::kNothing};
  return k;
}();

int length_of(const Kind& kind) {
  switch (kind.what) {
    case Do::kBranch:
      return 2;
    case Do::kJump:
    case Do::kJumpThrough:
    case Do::kCall:
      return 3;
    default:
      break;
  }
  switch (kind.mode) {
    case Mode::kImplied:
      return 1;
    case Mode::kAbsolute:
    case Mode::kAbsoluteX:
    case Mode::kAbsoluteY:
      return 3;
    default:
      return 2;
  }
}

bool is_tia(std::uint32_t address) { return (address & 0x1080) == 0; }
bool is_ram(std::uint32_t address) { return (address & 0x1280) == 0x0080; }
bool is_program(std::uint32_t address) { return (address & 0x1000) != 0; }

#define FIELD(member) (Memory{kMachine, static_cast<std::int32_t>(offsetof(Machine, member))})

// ---- Memory for code ----

// One for all programs. Forked processes have copies.
class CodeMemory {
 public:
  static CodeMemory& get() {
    static CodeMemory memory;
    return memory;
  }

  bool is_usable() const { return begin_ != nullptr; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  std::uint8_t* at() const { return at_; }
  std::uint8_t* end() const { return end_; }
  void* take(std::size_t bytes) {
    auto* const taken = at_;
    at_ += (bytes + 15) / 16 * 16;
    return taken;
  }

  using Enter = void (*)(Machine&, const void* code);
  Enter enter = nullptr;
  const std::uint8_t *leave = nullptr, *miss = nullptr;  // miss: pc in eax
  // Held while code is written. A process that is forked meanwhile never gets it, and interprets.
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

 private:
  static constexpr std::size_t kBytes = 16 << 20;

  CodeMemory() {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    begin_ = at_ = static_cast<std::uint8_t*>(memory);
    end_ = begin_ + kBytes - 64;  // take() rounds up
    constexpr Register kSaved[] = {rbx, rbp, r12, r13, r14, r15};
    Assembler code(at_, end_);
    enter = reinterpret_cast<Enter>(code.at());
    for (const auto each : kSaved) code.push(each);
    code.push(rax);  // so that calls find the stack aligned
    code.mov64(kMachine, rdi);
    code.load64(kRam, FIELD(ram));
    code.load(kA, FIELD(a)), code.load(kX, FIELD(x)), code.load(kY, FIELD(y));
    code.load(kResult, FIELD(result));
    code.load16(rax, FIELD(pc));
    code.jump(rsi);
    miss = code.at();
    code.store16(FIELD(pc), rax);
    code.store8(FIELD(misses), std::uint8_t{1});
    leave = code.at();
    code.store(FIELD(a), kA), code.store(FIELD(x), kX), code.store(FIELD(y), kY);
    code.store(FIELD(result), kResult);
    code.pop(rax);
    for (int i = 5; i >= 0; --i) code.pop(kSaved[i]);
    code.ret();
    take(static_cast<std::size_t>(code.at() - at_));
  }

  std::uint8_t *begin_ = nullptr, *at_ = nullptr, *end_ = nullptr;
};

}  // namespace

// ---- Translation ----

// Of one block: instructions one after another, up to a jump or one that is not translated. It is
// left in its middle where a branch is taken, and before an instruction that would do something
// rare, which the interpreter then does.
class Translation {
 public:
  Translation(const Program& program, std::uint16_t pc, Assembler& code)
      : program_(program), code_(code), pc_(pc) {}

  // False if there is nothing to run.
  bool translate() {
    constexpr int kMost = 48;
    code_.alu32(kCmp, FIELD(instructions_left), 0);
    auto* const number = code_.at() - 4;
    at_.pc = pc_;
    exits_.push_back({code_.jump_if(kBelow), at_, false});
    bool goes_on = true;
    while (goes_on && at_.instructions < kMost && fetch()) goes_on = execute();
    if (at_.instructions == 0) return false;
    if (goes_on) exit(at_, at_.instructions == kMost);
    for (std::size_t i = 0; i < later_.size(); ++i) later_[i]();
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
    return program_.bytes_.data() + static_cast<std::uint16_t>(pc - program_.begin_);
  }
  // Whether the bytes [address, address + n) are the program's; only the lower 13 bits count.
  bool in_program(std::uint32_t address, std::size_t n = 1) const {
    return is_program(address) && place_of(address) + n <= program_.size_;
  }
  std::size_t place_of(std::uint32_t address) const {
    return (address - program_.begin_) & 0x1fff;
  }

  // Decodes the next instruction. False if it is not translated.
  bool fetch() {
    if (!program_.contains(at_.pc)) return false;
    const auto* const bytes = bytes_at(at_.pc);
    kind_ = kKinds[bytes[0]];
    length_ = length_of(kind_);
    if (kind_.what == Do::kUnknown ||
        !program_.contains(static_cast<std::uint16_t>(at_.pc + length_ - 1)))
      return false;
    operand_ = length_ == 1 ? 0 : length_ == 2 ? bytes[1] : bytes[1] | (bytes[2] << 8);
    if (!is_translated(bytes)) return false;
    before_ = at_;
    at_.opcode = bytes[0];
    at_.bus = bytes[length_ - 1];
    at_.pc = static_cast<std::uint16_t>(at_.pc + length_);
    at_.cycles += program_.cycles_[bytes[0]];
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
    if (place.cycles != 0) code_.alu32(kAdd, FIELD(cycles), place.cycles);
    if (place.instructions != 0)
      code_.alu(kSub, FIELD(instructions_left), static_cast<std::int8_t>(place.instructions));
    if (place.opcode >= 0) code_.store8(FIELD(opcode), static_cast<std::uint8_t>(place.opcode));
    if (place.bus >= 0) code_.store8(FIELD(bus), static_cast<std::uint8_t>(place.bus));
  }
  // Goes on at place.pc; if `chained` in translated code, where there is some.
  void exit(const Place& place, bool chained) {
    put_away(place);
    code_.mov(rax, std::uint32_t{place.pc});
    if (chained && program_.contains(place.pc)) {
      code_.jump_through(&program_.entries_[static_cast<std::uint16_t>(place.pc - program_.begin_)]);
    } else {
      code_.store16(FIELD(pc), rax);
      code_.jump(CodeMemory::get().leave);
    }
  }
  // Leaves the instruction to the interpreter.
  void give_up_if(Condition condition) {
    exits_.push_back({code_.jump_if(condition), before_, false});
  }
  // `rare` is done if the condition is met, elsewhere in memory, and `usual` if not.
  template <class Rare, class Usual>
  void either(Condition condition, Rare rare, Usual usual) {
    auto* const there = code_.jump_if(condition);
    usual();
    auto* const back = code_.at();
    later_.push_back([this, there, back, rare] {
      code_.bind(there);
      rare();
      code_.jump(back);
    });
  }
  void leave_if_stopped() {
    code_.alu8(kCmp, FIELD(stops), 0);
    exits_.push_back({code_.jump_if(kNotZero), at_, false});
  }

  // ---- Calls ----

  template <class Function>
  void call(Function function) {
    code_.mov64(rdi, kMachine);
    code_.mov64(rax, reinterpret_cast<std::uint64_t>(function));
    code_.call(rax);
  }
  // The clock and the bus as a chip sees them, in code that is run now and then.
  template <class Call>
  void with_clock(bool bus_is_known, Call make_call) {
    const auto place = at_;
    if (place.cycles != 0) code_.alu32(kAdd, FIELD(cycles), place.cycles);
    if (bus_is_known) code_.store8(FIELD(bus), static_cast<std::uint8_t>(known_bus_));
    make_call();
    if (place.cycles != 0) code_.alu32(kSub, FIELD(cycles), place.cycles);
  }
  // The address is in ecx, the byte comes to eax.
  void call_read(bool bus_is_known) {
    with_clock(bus_is_known, [this] {
      code_.mov(rsi, rcx);
      call(program_.chips_.read);
    });
  }
  void call_write(Register value) {
    with_clock(false, [this, value] {
      code_.mov(rsi, rcx);
      code_.mov(rdx, value);
      call(program_.chips_.write);
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
        if (reads && (operand_ & 0xff) != 0) {
          code_.lea(rdx, {by, operand_ & 0xff});
          code_.shift(kRight, rdx, 8);
          code_.alu(kAdd, FIELD(cycles), rdx);
        }
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
          code_.alu(x86::kAdd, rdx, kY);
          code_.shift(kRight, rdx, 8);
          code_.alu(kAdd, FIELD(cycles), rdx);
          put_pointer_on_bus();
        }
        code_.alu(x86::kAdd, rcx, kY);
        code_.widen16(rcx, rcx);
    }
  }

  // Its high byte, which was read last.
  void put_pointer_on_bus() {
    code_.mov(rdx, rcx);
    code_.shift(kRight, rdx, 8);
    code_.store8(FIELD(bus), rdx);
  }

  // ---- Operands ----

  // Brings the operand to eax.
  void read() {
    known_bus_ = at_.bus;
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
            kZero, [this, at = at_] { slow_read(at, true); },
            [this] { code_.load8(rax, {kRam, -0x80, rcx}); });
        may_stop_ = true;
        break;
      case Mode::kAbsoluteX:
      case Mode::kAbsoluteY:
        if (in_program(operand_, 256)) {
          address_in_program();
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
      code_.mov(rax, std::uint32_t{program_.bytes_[place_of(address)]});
    } else {
      code_.mov(rcx, address);
      call_read(true);
      may_stop_ = true;
    }
  }
  void slow_read(const Place& at, bool bus_is_known) {
    const auto now = at_;
    at_ = at;
    known_bus_ = at.bus;
    call_read(bus_is_known);
    at_ = now;
  }
  // All of the page and the next are in the program.
  void address_in_program() {
    const auto by = index();
    if ((operand_ & 0xff) != 0) {
      code_.lea(rdx, {by, operand_ & 0xff});
      code_.shift(kRight, rdx, 8);
      code_.alu(kAdd, FIELD(cycles), rdx);
    }
    code_.load64(rcx, FIELD(program));
    code_.load8(rax, {rcx, static_cast<std::int32_t>(place_of(operand_)), by});
  }
  // Most addresses that are computed are in the program.
  void read_program(bool bus_is_known) {
    code_.lea(rdx, {rcx, -static_cast<std::int32_t>(program_.begin_ & 0x1fff)});
    code_.alu(x86::kAnd, rdx, 0x1fffU);
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(program_.size_));
    either(
        kNotBelow, [this, at = at_, bus_is_known] { slow_read(at, bus_is_known); },
        [this] {
          code_.load64(rcx, FIELD(program));
          code_.load8(rax, {rcx, 0, rdx});
        });
    may_stop_ = true;
  }
  void keep_bus(Register value) {
    code_.store8(FIELD(bus), value);
    at_.bus = -1;
  }

  void write(Register value) {
    at_.bus = -1;
    const bool direct = kind_.mode == Mode::kZeroPage || kind_.mode == Mode::kAbsolute;
    if (direct && is_ram(operand_)) {
      code_.store8({kRam, operand_ & 0x7f}, value);
      code_.store8(FIELD(bus), value);
    } else if (direct && is_tia(operand_)) {
      code_.alu32(kAdd, FIELD(cycles), at_.cycles);
      at_.cycles = 0;
      code_.mov(rsi, value);
      call(program_.chips_.write_tia[operand_ & 0x3f]);
      may_stop_ = true;
    } else if (direct) {
      code_.mov(rcx, std::uint32_t{operand_});
      call_write(value);
      may_stop_ = true;
    } else {
      address(false);
      if (kind_.mode == Mode::kZeroPageX || kind_.mode == Mode::kZeroPageY) {
        code_.test8(rcx, 0x80);
        either(
            kZero, [this, at = at_, value] { slow_write(at, value); },
            [this, value] { code_.store8({kRam, -0x80, rcx}, value); });
      } else {
        code_.mov(rdx, rcx);
        code_.alu(x86::kAnd, rdx, 0x1280U);
        code_.alu(kCmp, rdx, 0x80U);
        either(
            kNotZero, [this, at = at_, value] { slow_write(at, value); },
            [this, value] {
              code_.alu(x86::kAnd, rcx, 0x7fU);
              code_.store8({kRam, 0, rcx}, value);
            });
      }
      code_.store8(FIELD(bus), value);
      may_stop_ = true;
    }
  }
  void slow_write(const Place& at, Register value) {
    const auto now = at_;
    at_ = at;
    call_write(value);
    at_ = now;
  }

  // ---- Operations ----

  void show(Register value) { code_.mov(kResult, value); }
  void set_carry(Condition condition) { code_.set(condition, FIELD(carry)); }
  // The machine's carry.
  void load_carry() {
    code_.load8(rcx, FIELD(carry));
    code_.alu8(x86::kAdd, rcx, std::uint8_t{0xff});
  }

  void change(Register byte) {
    switch (kind_.what) {
      case Do::kShiftLeft:
        code_.alu8(x86::kAdd, byte, byte);
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
        code_.shift8(x86::kRotateRight, byte);
        set_carry(kBelow);
        break;
      case Do::kIncrement:
        code_.alu8(x86::kAdd, byte, std::uint8_t{1});
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
        code_.alu(x86::kOr, kA, rax);
        break;
      case Do::kAnd:
        code_.alu(x86::kAnd, kA, rax);
        break;
      case Do::kXor:
        code_.alu(x86::kXor, kA, rax);
        break;
      case Do::kAdd:
        load_carry();
        code_.alu8(kAdc, kA, rax);
        set_carry(kBelow);
        code_.set(kOverflow, FIELD(overflow));
        break;
      case Do::kSubtract:
        code_.alu8(kCmp, FIELD(carry), 1);
        code_.alu8(kSbb, kA, rax);
        set_carry(kNotBelow);
        code_.set(kOverflow, FIELD(overflow));
        break;
      case Do::kCompare:
        code_.mov(rcx, kind_.on);
        code_.alu8(kSub, rcx, rax);
        set_carry(kNotBelow);
        code_.widen8(kResult, rcx);
        return;
      case Do::kTestBits:
        code_.mov(rcx, rax);
        code_.alu(x86::kAnd, rcx, 0x80U);
        code_.shift(kLeft, rcx, 8);
        code_.mov(kResult, kA);
        code_.alu(x86::kAnd, kResult, rax);
        code_.alu(x86::kOr, kResult, rcx);
        code_.test8(rax, 0x40);
        code_.set(kNotZero, FIELD(overflow));
        return;
      default:  // kLoad
        code_.mov(kind_.on, rax);
    }
    show(kind_.on);
  }

  void branch() {
    const auto opcode = at_.opcode;
    switch (opcode >> 6) {
      case 0:
        code_.test(kResult, 0x8080);
        break;
      case 1:
        code_.alu8(kCmp, FIELD(overflow), 0);
        break;
      case 2:
        code_.alu8(kCmp, FIELD(carry), 0);
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
    const int counts = operand_ == 0xfd && from != program_.begin_ ? bytes_at(from)[-1] : 0;
    const bool is_loop = (opcode == 0xd0 || opcode == 0x10) && (counts == 0xca || counts == 0x88);
    if (!is_loop) {
      exits_.push_back({taken, there, true});
      return;
    }
    const int cycles = static_cast<int>(there.cycles - at_.cycles) + 4;  // of a round
    later_.push_back([this, taken, there, cycles, by = counts == 0xca ? kX : kY, to_zero = opcode == 0xd0] {
      code_.bind(taken);
      skip_rounds(by, to_zero, there.instructions, cycles);
      exit(there, true);
    });
  }
  // Back to DEX or DEY, the rounds of the loop are counted until the last, as far as instructions
  // may be executed.
  void skip_rounds(Register by, bool to_zero, int instructions, int cycles) {
    code_.alu8(kCmp, by, kResult);
    auto* const other = code_.jump_if(kNotZero);
    code_.lea(rcx, {by, to_zero ? -1 : 0});
    code_.load(rdx, FIELD(instructions_left));
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
    code_.alu(kSub, FIELD(instructions_left), rdx);
    for (int i = 0; i < cycles; ++i) code_.alu(kAdd, FIELD(cycles), rcx);
    code_.bind(none);
    code_.bind(other);
  }

  // Writes a register to the stack, which may be where the chips are.
  void push(Register value) {
    code_.load8(rcx, FIELD(sp));
    code_.test8(rcx, 0x80);
    at_.bus = -1;
    either(
        kZero,
        [this, at = at_, value] {
          code_.alu(x86::kOr, rcx, 0x100U);
          slow_write(at, value);
        },
        [this, value] {
          code_.store8({kRam, -0x80, rcx}, value);
          code_.store8(FIELD(bus), value);
        });
    code_.alu8(kSub, FIELD(sp), 1);
    may_stop_ = true;
  }
  void push_status() {
    code_.mov(rax, 0x20U);
    const auto add_flag = [&](Memory flag, std::uint8_t bit) {
      code_.load8(rcx, flag);
      if (bit != 0) code_.shift(kLeft, rcx, bit);
      code_.alu(x86::kOr, rax, rcx);
    };
    add_flag(FIELD(carry), 0), add_flag(FIELD(no_interrupts), 2), add_flag(FIELD(decimal), 3);
    add_flag(FIELD(with_break), 4), add_flag(FIELD(overflow), 6);
    code_.mov(rcx, kResult);
    code_.shift(kRight, rcx, 8);
    code_.alu(x86::kOr, rcx, kResult);
    code_.alu(x86::kAnd, rcx, 0x80U);
    code_.alu(x86::kOr, rax, rcx);
    code_.widen8(rcx, kResult);  // 1 less is negative only if it is zero
    code_.alu(kSub, rcx, 1U);
    code_.shift(kRight, rcx, 31);
    code_.lea(rax, {rax, 0, rcx, 1});
    push(rax);
  }

  // The stack pointer, in ecx, if it and the `n` bytes above or below are in RAM.
  void stack(int lowest, int n) {
    code_.load8(rcx, FIELD(sp));
    code_.lea(rdx, {rcx, -lowest});
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(0x7f - n));
    give_up_if(kAbove);
  }
  void pull() {
    code_.load8(rcx, FIELD(sp));
    code_.lea(rdx, {rcx, -0x80});
    code_.alu(kCmp, rdx, 0x7eU);
    known_bus_ = at_.bus;
    either(
        kAbove, [this, at = at_] { slow_pull(at); },
        [this] { code_.load8(rax, {kRam, -0x7f, rcx}); });
    code_.alu8(x86::kAdd, FIELD(sp), 1);
    code_.mov(kA, rax);
    show(kA);
    keep_bus(kA);
    may_stop_ = true;
  }
  // Reads where the stack is, too.
  void slow_pull(const Place& at) {
    code_.alu(x86::kOr, rcx, 0x100U);
    slow_read(at, true);
    code_.load8(rcx, FIELD(sp));
    code_.alu8(x86::kAdd, rcx, std::uint8_t{1});
    code_.alu(x86::kOr, rcx, 0x100U);
    slow_read(at, false);
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
    code_.alu8(kSub, FIELD(sp), 2);
    return jump(operand_);
  }
  // To the byte behind the address on the stack, which is the last of the call, and is read.
  bool return_from_routine() {
    stack(0x80, 2);
    code_.load16(rax, {kRam, -0x7f, rcx});
    code_.lea(rdx, {rax, -static_cast<std::int32_t>(program_.begin_)});
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(program_.size_ - 1));
    give_up_if(kNotBelow);
    code_.alu8(x86::kAdd, FIELD(sp), 2);
    code_.load64(rcx, FIELD(program));
    code_.load8(rcx, {rcx, 0, rdx});
    code_.store8(FIELD(bus), rcx);
    at_.bus = -1;
    put_away(at_);
    code_.alu(x86::kAdd, rax, 1U);
    code_.mov64(rcx, reinterpret_cast<std::uint64_t>(program_.entries_ + 1));
    code_.jump({rcx, 0, rdx, 3});
    return false;
  }
  bool jump_through() {
    code_.load16(rax, {kRam, operand_ & 0x7f});
    code_.mov(rdx, rax);
    code_.shift(kRight, rdx, 8);
    code_.store8(FIELD(bus), rdx);
    at_.bus = -1;
    put_away(at_);
    code_.lea(rdx, {rax, -static_cast<std::int32_t>(program_.begin_)});
    code_.alu(kCmp, rdx, static_cast<std::uint32_t>(program_.size_));
    auto* const outside = code_.jump_if(kNotBelow);
    code_.mov64(rcx, reinterpret_cast<std::uint64_t>(program_.entries_));
    code_.jump({rcx, 0, rdx, 3});
    code_.bind(outside);
    code_.store16(FIELD(pc), rax);
    code_.jump(CodeMemory::get().leave);
    return false;
  }

  // False if the block ends.
  bool execute() {
    switch (kind_.what) {
      case Do::kNothing:
        break;
      case Do::kStore:
        write(kind_.on);
        break;
      case Do::kShiftLeft:
      case Do::kShiftRight:
      case Do::kRotateLeft:
      case Do::kRotateRight:
      case Do::kIncrement:
      case Do::kDecrement:
        if (kind_.mode == Mode::kImplied)
          change(kind_.on);
        else
          change_memory();
        break;
      case Do::kCopy:
        if (kind_.from == no_register) {
          code_.load8(kind_.on, FIELD(sp));
          show(kind_.on);
        } else if (kind_.on == no_register) {
          code_.store8(FIELD(sp), kind_.from);
        } else {
          code_.mov(kind_.on, kind_.from);
          show(kind_.on);
        }
        break;
      case Do::kSetCarry:
        code_.store8(FIELD(carry), static_cast<std::uint8_t>(kind_.value));
        break;
      case Do::kSetDecimal:
        code_.store8(FIELD(decimal), static_cast<std::uint8_t>(kind_.value));
        break;
      case Do::kSetInterrupts:
        code_.store8(FIELD(no_interrupts), static_cast<std::uint8_t>(kind_.value));
        break;
      case Do::kClearOverflow:
        code_.store8(FIELD(overflow), std::uint8_t{0});
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
        code_.alu8(kCmp, FIELD(decimal), 0);
        give_up_if(kNotZero);
        [[fallthrough]];
      default:
        read();
        operate();
    }
    if (may_stop_) leave_if_stopped();
    return true;
  }

  const Program& program_;
  Assembler& code_;
  std::uint16_t pc_;
  Place at_, before_;
  Kind kind_;
  int length_ = 0;
  std::uint16_t operand_ = 0;
  int known_bus_ = 0;
  bool may_stop_ = false;  // the instruction may have reached a chip
  std::vector<Exit> exits_;
  std::vector<std::function<void()>> later_;
};

Program::Program(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
                 const std::uint32_t (&cycles)[256], const Chips& chips)
    : bytes_(bytes, bytes + size),
      size_(size),
      begin_(begin),
      cycles_(cycles),
      chips_(chips),
      entries_(static_cast<const void**>(CodeMemory::get().take((size + 1) * sizeof(void*)))),
      is_tried_(size) {
  std::fill_n(entries_, size + 1, CodeMemory::get().miss);
}

Program* Program::find(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
                       const std::uint32_t (&cycles)[256], const Chips& chips) {
  auto& memory = CodeMemory::get();
  if (!memory.is_usable() || memory.busy.test_and_set(std::memory_order_acquire)) return nullptr;
  static std::vector<std::unique_ptr<Program>> known;
  Program* found = nullptr;
  for (const auto& each : known)
    if (each->begin_ == begin && each->size_ == size &&
        std::memcmp(each->bytes_.data(), bytes, size) == 0)
      found = each.get();
  if (found == nullptr && memory.left() > (size + 4) * sizeof(void*)) {
    known.push_back(std::unique_ptr<Program>(new Program(bytes, size, begin, cycles, chips)));
    found = known.back().get();
  }
  memory.busy.clear(std::memory_order_release);
  return found;
}

bool Program::translate(std::uint16_t pc) {
  auto& memory = CodeMemory::get();
  if (!contains(pc) || memory.busy.test_and_set(std::memory_order_acquire)) return false;
  const auto place = static_cast<std::uint16_t>(pc - begin_);
  bool done = std::atomic_ref(entries_[place]).load() != memory.miss;
  if (!done && !is_tried_[place]) {
    is_tried_[place] = true;
    Assembler code(memory.at(), memory.end());
    done = Translation(*this, pc, code).translate();
    if (done) {
      auto* const entry = memory.take(static_cast<std::size_t>(code.at() - memory.at()));
      std::atomic_ref(entries_[place]).store(entry, std::memory_order_release);
    }
  }
  memory.busy.clear(std::memory_order_release);
  return done;
}

void Program::run(Machine& machine) {
  do {
    machine.misses = 0;
    const auto place = static_cast<std::uint16_t>(machine.pc - begin_);
    const auto* const entry = std::atomic_ref(entries_[place]).load(std::memory_order_acquire);
    CodeMemory::get().enter(machine, entry);
  } while (machine.misses != 0 && machine.stops == 0 && translate(machine.pc));
}
