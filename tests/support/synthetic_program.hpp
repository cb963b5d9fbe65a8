#pragma once

#include <maxbatch/simulation/allocation_program.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace maxbatch::test {

/// A training program drawn at random: what it asks for at any batch size follows from the seed alone. Layers with tensors
/// that are constant, grow with the batch or grow from an offset; scratch; loops over the samples, whose backward pass
/// comes in the opposite order; temporaries that one iteration leaves to the next.
class SyntheticProgram {
 public:
  /// Whether one iteration's last tensor may be let go of by the next one.
  enum class HandOn { may, never };

  explicit SyntheticProgram(std::uint64_t seed, HandOn hand_on = HandOn::may) : random_(seed), hand_on_(hand_on) {
    auto const layers = draw(2, 6);
    for (std::int64_t i = 0; i < layers; ++i) { layers_.push_back(draw_layer()); }
  }

  AllocationProgram at(std::int64_t batch_size) const {
    Writer writer(batch_size);
    for (auto const& layer : layers_) { writer.make({layer.weight, 0}); }
    for (int step = 0; step < 2; ++step) { write_step(writer); }
    return writer.program;
  }

 private:
  struct Size {
    std::int64_t offset = 0;
    std::int64_t per_sample = 0;
  };
  struct Layer {
    std::int64_t weight = 0;
    std::vector<Size> saved;    // until the layer's backward pass
    std::vector<Size> scratch;  // freed before the layer ends
    bool loops = false;
    std::vector<std::int64_t> saved_by_iteration;
    std::vector<std::int64_t> scratch_of_iteration;
    bool hands_on = false;  // an iteration's last tensor is let go of by the next one
    std::int64_t handed_on = 0;
  };

  struct Writer {
    explicit Writer(std::int64_t n) : batch_size(n) {}
    std::uint32_t make(Size size) {
      auto const request = static_cast<std::uint32_t>(program.requests.size());
      ProgramRequest made;
      made.size = size.offset + size.per_sample * batch_size;
      program.requests.push_back(made);
      program.operations.push_back({ProgramOperation::Kind::allocate, request});
      return request;
    }
    void free(std::uint32_t request) { program.operations.push_back({ProgramOperation::Kind::free, request}); }
    std::int64_t batch_size;
    AllocationProgram program;
  };

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::int64_t draw_bytes() { return 4 * draw(100, 5000000) + 1; }  // odd: no size is another by chance

  Layer draw_layer() {
    Layer layer;
    layer.weight = draw_bytes();
    for (auto i = draw(1, 4); i > 0; --i) { layer.saved.push_back(draw_size()); }
    for (auto i = draw(0, 3); i > 0; --i) { layer.scratch.push_back(draw_size()); }
    layer.loops = draw(0, 2) == 0;
    if (layer.loops) {
      for (auto i = draw(1, 3); i > 0; --i) { layer.saved_by_iteration.push_back(draw_bytes()); }
      for (auto i = draw(0, 3); i > 0; --i) { layer.scratch_of_iteration.push_back(draw_bytes()); }
      layer.hands_on = draw(0, 1) == 0 && hand_on_ == HandOn::may;
      layer.handed_on = draw_bytes();
    }
    return layer;
  }
  Size draw_size() {
    switch (draw(0, 3)) {
      case 0: return {draw_bytes(), 0};
      case 1: return {draw_bytes(), draw_bytes()};
      default: return {0, draw_bytes()};
    }
  }

  void write_step(Writer& writer) const {
    std::vector<std::vector<std::uint32_t>> saved(layers_.size());
    std::vector<std::vector<std::vector<std::uint32_t>>> by_sample(layers_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto const& layer = layers_[i];
      for (auto const& size : layer.saved) { saved[i].push_back(writer.make(size)); }
      if (layer.loops) { write_loop(writer, layer, by_sample[i]); }
      std::vector<std::uint32_t> scratch;
      for (auto const& size : layer.scratch) { scratch.push_back(writer.make(size)); }
      for (auto const request : scratch) { writer.free(request); }
    }
    std::vector<std::uint32_t> gradients;
    for (auto i = layers_.size(); i-- > 0;) {
      auto const& layer = layers_[i];
      gradients.push_back(writer.make({layer.weight + 8, 0}));
      for (auto sample = by_sample[i].size(); sample-- > 0;) {
        auto const gradient = writer.make({layer.saved_by_iteration.front() + 8, 0});
        for (auto const request : by_sample[i][sample]) { writer.free(request); }
        writer.free(gradient);
      }
      for (auto const request : saved[i]) { writer.free(request); }
    }
    for (auto const request : gradients) { writer.free(request); }
  }

  static void write_loop(Writer& writer, Layer const& layer, std::vector<std::vector<std::uint32_t>>& by_sample) {
    std::vector<std::uint32_t> handed_on;
    for (std::int64_t sample = 0; sample < writer.batch_size; ++sample) {
      by_sample.emplace_back();
      for (auto const bytes : layer.saved_by_iteration) { by_sample.back().push_back(writer.make({bytes, 0})); }
      std::vector<std::uint32_t> scratch;
      for (auto const bytes : layer.scratch_of_iteration) { scratch.push_back(writer.make({bytes, 0})); }
      for (auto const request : scratch) { writer.free(request); }
      if (layer.hands_on) {
        auto const made = writer.make({layer.handed_on, 0});
        if (!handed_on.empty()) { writer.free(handed_on.back()); }
        handed_on.push_back(made);
      }
    }
    if (!handed_on.empty()) { writer.free(handed_on.back()); }
  }

  std::mt19937_64 random_;
  HandOn hand_on_;
  std::vector<Layer> layers_;
};

}  // namespace maxbatch::test
