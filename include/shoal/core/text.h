#pragma once

#include <string>
#include <vector>

namespace shoal {

// The known word that takes the fewest insertions, deletions and replacements of characters to
// become `word`, case apart; the first of several. Empty if nothing is known. For messages such as
// "unknown X, did you mean Y".
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// Whole numbers as such, others with so many significant digits.
std::string number_text(double number, int digits = 6);

}  // namespace shoal
