#pragma once

#include <memory>

namespace maxbatch::detail {

/// The switches that LibTorch has once for the whole process, as they were: cuDNN, oneDNN and attention flags, determinism,
/// TF32 and all other precisions, default dtype, anomaly mode. And autocast's cache of cast weights, which is emptied.
///
/// Note [Switches of several searches]
/// Searches of several threads, each on a device of its own, share these switches, and a trial of one may have flipped some, for
/// its own time, when another begins or ends a trial. So while searches of other threads are going on nothing is read and nothing
/// put back: who comes later shares what the first one read, and what trials left behind is put back by whoever is alone again, at
/// the latest when the last one goes. A search that is alone puts everything back after each trial.
///
/// Threads: any. Those of one thread are nested, and know of each other; a step may search.
class ProcessSwitches {
 public:
  ProcessSwitches();
  ~ProcessSwitches();
  ProcessSwitches(ProcessSwitches const&) = delete;
  ProcessSwitches& operator=(ProcessSwitches const&) = delete;

  /// Now, or later: see the note.  Throws: what LibTorch's setters throw, when all have been tried.
  void restore();

  class AsRead;  // what was read, shared among those who overlap

 private:
  std::shared_ptr<AsRead> as_read_;
};

}  // namespace maxbatch::detail
