#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <library_types.h>

namespace maxbatch::dry {

/// Scratch sizes of cuSOLVER as an H200 gave them (measured/cusolver_sizes.txt), and between the matrices that were asked about
/// by a power law through the two next to them: exact at those, near them within some percent. Nothing documents the sizes.
/// Units: those of the function: elements for most, bytes for those that begin with X.
class MeasuredSizes {
 public:
  /// Lines of FUNCTION ROWS COLUMNS [BATCH] ELEMENTS, of FUNCTION ORDER BATCH ELEMENTS for functions of a batch of square
  /// matrices, and of Xfunction:TYPE with a second number for the host's memory. Others say nothing.
  explicit MeasuredSizes(std::string_view text);

  struct Answer {
    std::int64_t on_card = 0;
    std::int64_t on_host = 0;
  };

  /// For `function`, as "Sgeqrf" or "Xsyevd:S". Zeros for a function that nobody asked about.
  Answer find(std::string const& function, std::int64_t rows, std::int64_t columns, std::int64_t batch = 1) const;

 private:
  /// Matrices of one shape, and of one batch: answers by the number of columns.
  enum class Shape { tall, square, wide };
  using Curve = std::map<std::int64_t, Answer>;
  using Curves = std::map<std::pair<Shape, std::int64_t>, Curve>;

  static Answer on(Curve const& curve, std::int64_t columns);

  std::map<std::string, Curves> functions_;
};

/// The sizes that the library brings along.
MeasuredSizes const& solver_sizes();

/// The key of a function of any type: "Xsyevd:S".
std::string solver_key(char const* function, cudaDataType type);

/// Their text. Written at build time from measured/.
std::string_view measured_solver_sizes();

}  // namespace maxbatch::dry
