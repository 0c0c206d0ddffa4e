#pragma once

#include <memory>
#include <string>

#include "shoal/runners/log.h"

namespace shoal {

// The metrics of a row in two columns, 80 characters wide, without those that are NaN, such as the
// return before the first episode has ended.
std::string table_of(const LogRow& row);

// Prints such a table on standard output, at most once per `seconds` of training.
std::unique_ptr<LogSink> make_console_table(double seconds);

}  // namespace shoal
