#pragma once

#include <cstdint>
#include <optional>

namespace maxbatch::dry {

/// A recurrent network as cuDNN's descriptor says it: what decides how its weights lie and how much scratch it takes.
struct RecurrentNetwork {
  std::int64_t gates = 1;       ///< 4 for LSTM, 3 for GRU, 1 for plain cells
  std::int64_t biases = 2;      ///< for each gate: of the input, of the recurrence, or both
  bool bias_of_input = true;    ///< with one bias: whose
  std::int64_t directions = 1;  ///< 2 if bidirectional
  bool persistent = false;      ///< its kernels keep the recurrent weights
  bool skips_input = false;     ///< the first layer has no input matrices
  std::int64_t element_bytes = 4;
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t projected = 0;  ///< as hidden, if there is no projection
  std::int64_t layers = 1;

  struct Matrix {
    std::int64_t offset = 0;  ///< in elements, from the beginning of the weights
    std::int64_t rows = 0;
    std::int64_t columns = 0;
  };
  struct Place {
    std::optional<Matrix> matrix;
    std::optional<Matrix> bias;  ///< one column
  };

  std::int64_t pseudo_layers() const { return layers * directions; }
  std::int64_t weight_elements() const;
  /// Linear layers 0 to gates - 1 are applied to the input, gates to 2 * gates - 1 to the recurrence, the next one projects.
  Place place_of(std::int64_t pseudo_layer, std::int64_t linear) const;
};

struct SequenceBatch {
  std::int64_t steps = 0;
  std::int64_t sequences = 0;
};

struct RecurrentScratch {
  std::int64_t workspace = 0;
  std::int64_t reserve = 0;
};

/// Units: bytes.
RecurrentScratch scratch_of(RecurrentNetwork const& network, SequenceBatch batch, bool training);

}  // namespace maxbatch::dry
