// progress.csv, as read by `shoal plot` and by a resumed run.
#include <cstdint>
#include <string>

#include "shoal/runners/progress_file.h"
#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {

void run(std::string_view input) {
  const std::string text(input), file = "progress.csv";
  accepts([&] {
    const auto table = parse_progress(text, file);
    for (const auto& [name, column] : table)
      expect(column.size() == table[0].size(), "columns of the same length");
  });
  for (const std::int64_t steps : {std::int64_t{1000}, INT64_MAX})
    accepts([&] {
      const auto kept = keep_rows(text, file, steps), again = keep_rows(kept.text, file, steps);
      expect(text.starts_with(kept.text), "the rows from the beginning");
      expect(again.text == kept.text && again.seconds == kept.seconds, "the same rows again");
    });
}

}  // namespace shoal::fuzz
