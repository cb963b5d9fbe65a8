// libFuzzer's place where a compiler has none: `fuzzer [-max_total_time=SECONDS] [-seed=N] FOLDER...` runs every file of
// the folders and then mutations of them. No coverage guides it; the same arguments give the same inputs.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

Input read_input(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Mutator {
 public:
  Mutator(std::vector<Input> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}

  Input next() {
    auto input = corpus_[below(corpus_.size())];
    for (auto left = 1 + below(6); left > 0; --left) { mutate(input); }
    return input;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : static_cast<std::size_t>(random_() % end); }
  std::uint8_t byte() {
    // Now and then what is special: bounds of numbers, and pickle's instructions.
    static constexpr std::uint8_t special[] = {0x00, 0x01, 0x7F, 0x80, 0xFF, '(',  '.', ']',
                                               '}',  'e',  'u',  'h',  'j',  '\n', ',', '9'};
    return below(2) == 0 ? special[below(sizeof(special))] : static_cast<std::uint8_t>(below(256));
  }

  void mutate(Input& input) {
    auto const at = static_cast<std::ptrdiff_t>(below(input.size() + 1));
    auto const length =
        static_cast<std::ptrdiff_t>(std::min(below(16) + 1, input.size() - static_cast<std::size_t>(at)));
    auto const place = input.begin() + at;
    switch (below(7)) {
      case 0:
        if (length > 0) { *place = byte(); }
        break;
      case 1: input.insert(place, byte()); break;
      case 2: input.erase(place, place + length); break;
      case 3: {
        Input const part(place, place + length);
        auto const to = static_cast<std::ptrdiff_t>(below(input.size() + 1));
        input.insert(input.begin() + to, part.begin(), part.end());
        break;
      }
      case 4: input.resize(static_cast<std::size_t>(at)); break;
      case 5: {
        auto const& other = corpus_[below(corpus_.size())];
        input.erase(place, input.end());
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size() + 1)), other.end());
        break;
      }
      default:
        if (length > 0) { *place = static_cast<std::uint8_t>(*place ^ (1U << below(8))); }
        break;
    }
    constexpr std::size_t most = std::size_t{1} << 16;
    if (input.size() > most) { input.resize(most); }
  }

  std::vector<Input> corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 1;
  std::uint64_t seed = 1;
  std::vector<Input> corpus = {Input()};
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    if (argument.rfind("-max_total_time=", 0) == 0) {
      seconds = std::stod(argument.substr(16));
    } else if (argument.rfind("-seed=", 0) == 0) {
      seed = std::stoull(argument.substr(6));
    } else if (argument[0] != '-') {
      std::vector<std::filesystem::path> paths;
      for (auto const& entry : std::filesystem::directory_iterator(argument)) { paths.push_back(entry.path()); }
      std::sort(paths.begin(), paths.end());
      for (auto const& path : paths) { corpus.push_back(read_input(path)); }
    }
  }
  if (corpus.size() == 1) {
    std::fprintf(stderr, "fuzz_driver: no corpus\n");
    return 2;
  }
  for (auto const& input : corpus) { LLVMFuzzerTestOneInput(input.data(), input.size()); }
  Mutator mutator(corpus, seed);
  std::uint64_t runs = 0;
  auto const* const format = std::getenv("MAXBATCH_FUZZED_FORMAT");
  auto const current = std::string("fuzz_driver_") + (format == nullptr ? "" : format) + ".input";
  auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    auto const input = mutator.next();
    // What is about to run, for when it does not return.
    if (std::FILE* const file = std::fopen(current.c_str(), "wb")) {
      std::fwrite(input.data(), 1, input.size(), file);
      std::fclose(file);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::remove(current.c_str());
  std::printf("fuzz_driver: %zu inputs of the corpus, %llu mutations\n", corpus.size(),
              static_cast<unsigned long long>(runs));
}
