#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shoal {

// The known word that takes the fewest insertions, deletions and replacements of characters to
// become `word`, case apart; the first of several. Empty if nothing is known. For messages such as
// "unknown X, did you mean Y". Of a long word only the first 200 characters count.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// Text that somebody else wrote, as a message repeats it: on one line, control characters and bytes
// that are not UTF-8 replaced, and cut after `most` bytes, which three dots show.
std::string one_line(std::string_view text, std::size_t most = 100);

// Whole numbers as such, others with so many significant digits.
std::string number_text(double number, int digits = 6);

// "512 B", "1.5 MB", "48 GB": three significant digits, powers of ten.
std::string bytes_text(double bytes);

}  // namespace shoal
