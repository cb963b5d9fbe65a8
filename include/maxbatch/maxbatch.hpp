#pragma once

/// All of maxbatch but its test matchers (maxbatch/gtest.hpp).

#include <maxbatch/bytes.hpp>
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/device/failure_classifier.hpp>
#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/device/trace_recorder.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/result_table.hpp>
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/training/max_batch_finder.hpp>
#include <maxbatch/training/trace_recording.hpp>
