#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shoal {

// The known word with the smallest edit distance (insertions, deletions, replacements) to `word`,
// ignoring case; the first of several; empty if `known` is empty. For messages such as "unknown X,
// did you mean Y". Only the first 200 characters of a long word are compared.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// Foreign text as a message quotes it: on one line, control characters and bytes that are not UTF-8
// replaced, cut after `most` bytes with "..." appended.
std::string one_line(std::string_view text, std::size_t most = 100);

// The text as one word of a POSIX shell's command line, in quotes where they are needed.
std::string shell_word(const std::string& text);

// Integers below 1e15 are printed exactly, other numbers with `digits` significant digits.
std::string number_text(double number, int digits = 6);

// "512 B", "1.5 MB", "48 GB": three significant digits, powers of ten.
std::string bytes_text(double bytes);

}  // namespace shoal
