#include "runners/console_table.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "shoal/core/text.h"
#include "shoal/runners/console.h"

namespace shoal {
namespace {

std::string cell(const std::string& name, double number) {
  return fmt::format("{:<22} {:>14}", name, number_text(number, 5));
}

class ConsoleTable : public LogSink {
 public:
  explicit ConsoleTable(double interval) : interval_(interval) {}
  void write(const LogRow& row) override {
    if (row.seconds() < next_) return;
    next_ = row.seconds() + interval_;
    print_to_console(fmt::format("\n{}\n", table_of(row)));
  }

 private:
  double interval_, next_ = 0;
};

}  // namespace

std::string table_of(const LogRow& row) {
  std::vector<std::string> cells{cell("steps", static_cast<double>(row.steps))};
  for (const auto& [name, number] : row.numbers)
    if (!std::isnan(number)) cells.push_back(cell(name, number));
  const auto height = (cells.size() + 1) / 2;
  std::string text;
  for (std::size_t i = 0; i < height; ++i) {
    text += cells[i];
    if (i + height < cells.size()) text += "    " + cells[i + height];
    text += '\n';
  }
  return text;
}

std::unique_ptr<LogSink> make_console_table(double seconds) {
  return std::make_unique<ConsoleTable>(seconds);
}

}  // namespace shoal
