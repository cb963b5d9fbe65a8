#include "dry_cuda/libraries/cudnn_rnn_sizes.hpp"

#include <cmath>

namespace maxbatch::dry {
namespace {

// Note [Scratch of recurrent networks].
// cuDNN documents how the weights lie, not its scratch memory. measured/ask_sizes.py asked an H200 (cuDNN 9.19) for 15,204
// networks: the reserve, which a training step keeps until its backward pass, follows the rule below to the byte in all of
// them. The workspace, which is given back at once, is the library's 8 MiB for each pseudo-layer, a copy of the weights, and
// buffers for a whole sequence; for inference the sums below are right within 0.6 %, for training within 11 % (0.5 % on
// average), except for the static persistent algorithm in training, which is up to 20 % off.
constexpr std::int64_t kWorkspaceOfPseudoLayer = std::int64_t{8} << 20;
constexpr std::int64_t kReserveHeader = 256;
constexpr std::int64_t kReserveAlignment = 32;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// How many values of a cell's width cuDNN keeps of each step for the backward pass.
std::int64_t values_kept(std::int64_t gates) {
  switch (gates) {
    case 4: return 5;  // LSTM: its gates and the cell
    case 3: return 6;  // GRU
    default: return 1;
  }
}

/// Widths of the buffers in a workspace, in elements: for each value of hidden size, of input size, and for each sequence.
struct BufferWidths {
  double hidden, input, sequence;
};

BufferWidths buffers_of(RecurrentNetwork const& network, bool training) {
  bool const both_ways = network.directions == 2;
  switch (network.gates) {
    case 4:
      if (!training) return both_ways ? BufferWidths{14, 1, 23} : BufferWidths{5, 1, 9.5};
      return both_ways ? BufferWidths{13.75, 1.75, 23} : BufferWidths{4.75, 1.5, 9.5};
    case 3:
      if (!training) return both_ways ? BufferWidths{12, 1, 13.25} : BufferWidths{4, 1, 4.75};
      return both_ways ? BufferWidths{11.75, 2.5, 13.25} : BufferWidths{3.75, 2.25, 4.75};
    default:
      if (!training) return both_ways ? BufferWidths{8, 1, 9.75} : BufferWidths{2, 1, 3};
      return both_ways ? BufferWidths{10.75, 3.25, 9.75} : BufferWidths{3.75, 2.25, 3};
  }
}

/// What a persistent algorithm adds, in elements for each value of hidden size.
double persistent_width(RecurrentNetwork const& network, bool training) {
  if (!network.persistent) return 0;
  if (!training) return 4.0 * static_cast<double>(network.gates);
  return network.gates == 4 ? 16 : network.gates == 3 ? 12.5 : 8.5;
}

}  // namespace

std::int64_t RecurrentNetwork::weight_elements() const {
  auto const last = place_of(pseudo_layers(), 0);
  return last.matrix ? last.matrix->offset : 0;
}

RecurrentNetwork::Place RecurrentNetwork::place_of(std::int64_t pseudo_layer, std::int64_t linear) const {
  Place place;
  bool const projects = projected != hidden;
  std::int64_t offset = 0;
  auto const matrix = [&](std::int64_t layer, std::int64_t index, std::int64_t rows, std::int64_t columns) {
    if (layer == pseudo_layer && index == linear) place.matrix = Matrix{offset, rows, columns};
    offset += rows * columns;
  };
  // First all matrices, then all biases, layer after layer.
  for (std::int64_t layer = 0; layer < pseudo_layers(); ++layer) {
    bool const first = layer < directions;
    std::int64_t const width = first ? input : projected * directions;
    for (std::int64_t gate = 0; gate < gates && !(first && skips_input); ++gate) matrix(layer, gate, hidden, width);
    for (std::int64_t gate = 0; gate < gates; ++gate) matrix(layer, gates + gate, hidden, projected);
    if (projects) matrix(layer, 2 * gates, projected, hidden);
  }
  for (std::int64_t layer = 0; layer < pseudo_layers(); ++layer) {
    for (std::int64_t index = 0; index < 2 * gates; ++index) {
      bool const of_input = index < gates;
      if (biases == 0 || (biases == 1 && of_input != bias_of_input)) continue;
      if (layer == pseudo_layer && index == linear) place.bias = Matrix{offset, hidden, 1};
      offset += hidden;
    }
  }
  if (pseudo_layer >= pseudo_layers()) place.matrix = Matrix{offset, 0, 0};  // the end
  return place;
}

RecurrentScratch scratch_of(RecurrentNetwork const& network, SequenceBatch batch, bool training) {
  std::int64_t const values = batch.steps * batch.sequences * network.element_bytes;
  RecurrentScratch scratch;
  if (training) {
    bool const projects = network.projected != network.hidden;
    std::int64_t const of_layer =
        values * (values_kept(network.gates) * network.hidden + (projects ? network.hidden + network.projected : 0));
    std::int64_t const between_layers = values * network.hidden;
    scratch.reserve = kReserveHeader + rounded_up(network.pseudo_layers() * of_layer, kReserveAlignment) +
                      rounded_up((network.layers - 1) * network.directions * between_layers, kReserveAlignment);
  }
  auto const widths = buffers_of(network, training);
  auto const hidden = static_cast<double>(network.hidden);
  double const buffers =
      static_cast<double>(values) * ((widths.hidden + persistent_width(network, training)) * hidden +
                                     widths.input * static_cast<double>(network.input)) +
      static_cast<double>(batch.sequences * network.element_bytes * network.layers) * widths.sequence * hidden;
  scratch.workspace = network.pseudo_layers() * kWorkspaceOfPseudoLayer +
                      network.weight_elements() * network.element_bytes + static_cast<std::int64_t>(std::ceil(buffers));
  return scratch;
}

}  // namespace maxbatch::dry
