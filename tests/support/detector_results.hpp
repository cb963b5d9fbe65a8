#pragma once

#include "support/python_results.hpp"
#include <maxbatch/models/detection.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace maxbatch::test {

// What faster_rcnn_reference.py and retinanet_reference.py leave, compared with ours.

inline std::vector<models::DetectionTarget> targets_at(c10::impl::GenericDict const& file) {
  auto const boxes = tensors_at(file, "boxes");
  auto const labels = tensors_at(file, "labels");
  std::vector<models::DetectionTarget> targets;
  for (std::size_t i = 0; i < boxes.size(); ++i) { targets.push_back({boxes[i], labels[i]}); }
  return targets;
}

inline void expect_same_detections(std::vector<models::Detections> const& found, c10::impl::GenericDict const& file,
                                   double bound) {
  auto const truth = file.at("evaluated").toGenericDict();
  auto const boxes = tensors_at(truth, "boxes");
  auto const labels = tensors_at(truth, "labels");
  auto const scores = tensors_at(truth, "scores");
  ASSERT_EQ(found.size(), boxes.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("image " + std::to_string(i));
    ASSERT_GT(boxes[i].size(0), 10);  // there is something to compare
    ASSERT_EQ(found[i].boxes.sizes(), boxes[i].sizes());
    EXPECT_TRUE(at::equal(found[i].labels, labels[i]));
    EXPECT_LT(error_of(found[i].boxes, boxes[i]), bound);
    EXPECT_LT(error_of(found[i].scores, scores[i]), bound);
  }
}

/// `thinned` of the scripts: every so many numbers of a large tensor.
inline at::Tensor thinned(at::Tensor const& x) {
  return x.flatten().slice(0, std::nullopt, std::nullopt, std::max<std::int64_t>(1, x.numel() / 5000));
}

inline void expect_same_gradients(torch::nn::Module const& model, c10::impl::GenericDict const& file, double bound) {
  auto const gradients = named_tensors_at(file.at("trained").toGenericDict(), "gradients");
  std::size_t compared = 0;
  for (auto const& item : model.named_parameters()) {
    auto const theirs = gradients.find(item.key());
    ASSERT_EQ(item.value().grad().defined(), theirs != gradients.end()) << item.key();
    if (theirs == gradients.end()) { continue; }
    EXPECT_LT(error_of(thinned(item.value().grad()), theirs->second), bound) << item.key();
    ++compared;
  }
  EXPECT_EQ(compared, gradients.size());
}

}  // namespace maxbatch::test
