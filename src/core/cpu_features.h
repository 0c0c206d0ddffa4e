#pragma once

// What depends on the processor. Kernels for the vector instructions of x86 do not exist elsewhere,
// nor with the CMake option SHOAL_WITH_X86_KERNELS off, by which the portable ones are tested on
// x86.
#if defined(__x86_64__) && !defined(SHOAL_PORTABLE_KERNELS)
#define SHOAL_X86_KERNELS 1
#define SHOAL_TARGET(instructions) __attribute__((target(instructions)))
#else
#define SHOAL_X86_KERNELS 0
#define SHOAL_TARGET(instructions)
#endif
// The instruction sets for which has_avx512() checks.
#define SHOAL_AVX512 SHOAL_TARGET("avx512f,avx512dq,avx512vl,avx2,fma")
// Inlined functions are compiled for the instruction set of their caller.
#define SHOAL_INLINE inline __attribute__((always_inline))

namespace shoal {

// Tells the core that this thread polls.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// While one exists, this thread's operations on float and double take denormal numbers as zero and
// return zero instead of them: on most processors such numbers take many times as long as others.
// Numbers must be loaded and results stored in its scope, because the compiler may move other
// arithmetic out of it. Without effect on processors other than x86-64 and AArch64.
class FlushDenormals {
 public:
  FlushDenormals() : before_(control()) { set_control(before_ | kFlush); }
  ~FlushDenormals() { set_control(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  using Control = unsigned;
  static constexpr Control kFlush = 0x8040;  // results and operands, in MXCSR
  static Control control() {
    Control c = 0;
    asm volatile("stmxcsr %0" : "=m"(c));
    return c;
  }
  static void set_control(Control c) { asm volatile("ldmxcsr %0" : : "m"(c) : "memory"); }
#elif defined(__aarch64__)
  using Control = unsigned long;
  static constexpr Control kFlush = 1UL << 24;  // FPCR.FZ
  static Control control() {
    Control c = 0;
    asm volatile("mrs %0, fpcr" : "=r"(c));
    return c;
  }
  static void set_control(Control c) { asm volatile("msr fpcr, %0" : : "r"(c) : "memory"); }
#else
  using Control = unsigned;
  static constexpr Control kFlush = 0;
  static Control control() { return 0; }
  static void set_control(Control) {}
#endif
  Control before_;
};

inline bool has_avx2() {
#if SHOAL_X86_KERNELS
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

inline bool is_amd() {
#if SHOAL_X86_KERNELS
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// The parts of AVX-512 that every server processor with it has.
inline bool has_avx512() {
#if SHOAL_X86_KERNELS
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace shoal
