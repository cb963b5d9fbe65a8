// In place of trace_recorder.cpp where LibTorch was built without CUDA: nothing gets past the constructor.
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/device/trace_recorder.hpp>

namespace maxbatch {

class TraceRecorder::Buffer {};

TraceRecorder::TraceRecorder(c10::DeviceIndex index, std::size_t /*capacity*/) { cuda_device(index); }
TraceRecorder::~TraceRecorder() = default;

void TraceRecorder::begin_step(std::int64_t /*number*/) {}
void TraceRecorder::end_step(std::int64_t /*number*/) {}
void TraceRecorder::begin_phase(std::string_view /*name*/) {}
void TraceRecorder::end_phase(std::string_view /*name*/) {}
void TraceRecorder::mark_statistics(std::string_view /*label*/) {}
std::uint64_t TraceRecorder::event_count() const { return 0; }
std::uint64_t TraceRecorder::lost_events() const { return 0; }
AllocationTrace TraceRecorder::finish() { return {}; }

}  // namespace maxbatch
