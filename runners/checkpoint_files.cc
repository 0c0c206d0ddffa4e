#include "shoal/runners/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "shoal/core/error.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

constexpr const char* kNumbered = "checkpoint-";

void give_second_name(const fs::path& file, const fs::path& name) {
  const fs::path temporary = name.string() + ".new";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(file, temporary, error);
  if (error) fs::copy_file(file, temporary, error);
  if (!error) fs::rename(temporary, name, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw Error("cannot write {}: {}", name.string(), error.message());
}

}  // namespace

void CheckpointFiles::write(const Checkpoint& checkpoint, std::int64_t steps) const {
  const auto newest = folder_ / kCheckpointFile;
  try {
    write_checkpoint(newest, checkpoint);
  } catch (const Error& e) {
    throw Error("{}; the checkpoint before it stays", e.what());
  }
  if (keep_ > 1) give_second_name(newest, folder_ / fmt::format("{}{:012}.ckpt", kNumbered, steps));
  drop_oldest();
}

void CheckpointFiles::write_best(const Checkpoint& checkpoint) const {
  write_checkpoint(folder_ / kBestFile, checkpoint);
}

void CheckpointFiles::drop_oldest() const {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (!entry.path().filename().string().starts_with(kNumbered)) continue;
    if (entry.path().extension() == ".ckpt") files.push_back(entry.path());
    if (entry.path().extension() == ".new") fs::remove(entry.path());  // a killed run's
  }
  std::ranges::sort(files);  // their numbers have one width
  const auto more = static_cast<std::int64_t>(files.size()) - (keep_ > 1 ? keep_ : 0);
  for (std::int64_t i = 0; i < more; ++i) fs::remove(files[static_cast<std::size_t>(i)]);
}

}  // namespace shoal
