// replay FOLDER: runs a target on each file of its corpus, without a fuzzer.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz.h"

int main(int argc, char** argv) {
  shoal::fuzz::expect(argc == 2, "the folder of a corpus");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::cout << entry.path().string()
              << std::endl;  // after a crash, the last name is that of the input
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(in), {}};
    shoal::fuzz::expect(in.good() || in.eof(), "a file that can be read");
    shoal::fuzz::run(input);
    ++files;
  }
  shoal::fuzz::expect(files > 0, "a corpus that is not empty");
  shoal::fuzz::run("");
  std::cout << files << " inputs\n";
}
