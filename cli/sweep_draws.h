#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/sweep.h"
#include "runners/toml_values.h"
#include "shoal/core/option.h"

namespace shoal::cli {

using Variants = std::vector<std::pair<std::string, Settings>>;  // with their names

// Each variant with every combination of the values in a table [grid], and with the draws of a
// table [random]. Both throw Error for a table that is not as Sweep describes.
Variants with_grid(const Variants& variants, const toml::table& grid);
Variants with_draws(const Variants& variants, const toml::table& random);

// The whole number `key` of the table [name]. Throws Error if it is missing and `otherwise` is
// empty, if it is no whole number, and outside the bounds.
std::int64_t whole_number(const std::string& name, const toml::table& table, const char* key,
                          std::optional<std::int64_t> otherwise, const Bounds& bounds);

// Throws Error unless the name can be that of a folder.
void require_folder_name(const std::string& variant);

}  // namespace shoal::cli
