#pragma once

#include <string_view>

#include "shoal/core/error.h"

namespace shoal::fuzz {

// The parser under test reads `input`, whatever it holds; each target defines this function. It
// returns, or ends the process: by a sanitizer, an exception other than Error, or expect().
void run(std::string_view input);

// Ends the process with `expected` on stderr unless `holds`: a fuzzer and a plain program both
// notice that.
void expect(bool holds, std::string_view expected);

// An error message is a line that fits on a screen, whatever the input was.
void expect_one_line(std::string_view message);

// Runs `parse`, which may refuse its input by an Error.
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
