#pragma once

#include <string_view>

#include "shoal/core/error.h"

namespace shoal::fuzz {

// Runs the parser under test on any `input`; each target defines this function. It returns, or the
// process ends: by a sanitizer, an exception other than Error, or expect().
void run(std::string_view input);

// Unless `holds`, ends the process with `expected` on stderr, which a fuzzer and a test both
// detect.
void expect(bool holds, std::string_view expected);

// An error message must be one line that fits on a screen, for any input.
void expect_one_line(std::string_view message);

// Runs `parse`, which may reject its input by an Error.
template <class Parse>
bool accepts(const Parse& parse) {
  try {
    parse();
    return true;
  } catch (const Error& e) {
    expect_one_line(e.what());
    return false;
  }
}

}  // namespace shoal::fuzz
