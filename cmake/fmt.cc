// fmt, compiled once: header-only it costs 6 of the 7 seconds of every file that formats a message.
// fmt 12.1 writes one byte in front of a stream's buffer if the buffer is exactly full and cannot be
// written (init_buffer() takes a character back that was not put), so its prints go through fwrite.
#define FMT_USE_FALLBACK_FILE 1
#include <fmt/format-inl.h>

#include <locale>

// Declared in the headers, defined by none of them.
FMT_BEGIN_NAMESPACE
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get<std::locale>() const;
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
}  // namespace detail
FMT_END_NAMESPACE
