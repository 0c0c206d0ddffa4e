#include "cli/cores.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"

namespace shoal::cli {
namespace {

TEST(CoresTest, AListIsWrittenInRanges) {
  EXPECT_EQ(cores_text({}), "");
  EXPECT_EQ(cores_text({4}), "4");
  EXPECT_EQ(cores_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(CoresTest, ANumberIsHowManyAndAListIsWhich) {
  const auto allowed = allowed_cores();
  EXPECT_EQ(parse_cores("1"), std::vector<int>{allowed[0]});
  EXPECT_EQ(parse_cores(std::to_string(allowed.size())), allowed);
  EXPECT_EQ(parse_cores(cores_text(allowed) + ","), allowed);
  const auto last = std::to_string(allowed.back());
  EXPECT_EQ(parse_cores(last + "-" + last), std::vector<int>{allowed.back()});
  EXPECT_EQ(parse_cores(last + "," + last), std::vector<int>{allowed.back()});
}

TEST(CoresTest, WhatIsNoneOrNotAllowedIsRefused) {
  const auto more = std::to_string(allowed_cores().size() + 1);
  for (const std::string& text :
       {std::string("0"), more, std::string(""), std::string("all"), std::string("1-0"),
        std::string("-1"), std::string("0-"), std::string("0,x"), std::string("0-99999999999"),
        std::string("60000,60001"), std::string("1.5")})
    EXPECT_THROW(parse_cores(text), Error) << text;
}

}  // namespace
}  // namespace shoal::cli
