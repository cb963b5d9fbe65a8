#pragma once

#include "child_process.hpp"
#include <maxbatch/bytes.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace maxbatch::process {

/// The dry CUDA library is not where it could be found.
class NoDryWorld : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A card that is not there, for a process that is to start on it.
struct DryWorldOrder {
  std::string card_name;     ///< for reports
  std::string card_profile;  ///< the text that the dry card reads: card_profile_text
  std::optional<Bytes> budget;
  std::int64_t seed = 0;
  std::int64_t devices = 1;
};

/// Memory that has no name in any folder and ends with this process; processes that it starts open it by `path`.
class NamelessFile {
 public:
  /// Throws: std::runtime_error when the machine has no memory for it.
  NamelessFile(char const* name, std::string const& contents);
  ~NamelessFile();
  NamelessFile(NamelessFile const&) = delete;
  NamelessFile& operator=(NamelessFile const&) = delete;

  int descriptor() const { return descriptor_; }
  std::string path() const;

 private:
  int descriptor_ = -1;
};

/// What has to be in a process's environment for it to start on a dry card. Lives as long as the process may read it.
class DryWorld {
 public:
  /// Throws: NoDryWorld.
  explicit DryWorld(DryWorldOrder const& order);
  EnvironmentChanges const& environment() const { return environment_; }
  /// Until then an exec of this process takes the card's profile away.
  void outlive_exec() const;

 private:
  NamelessFile profile_;
  EnvironmentChanges environment_;
};

/// A library of ours that programs are started with: beside this library or the program, as they are built or installed.
/// Throws: NoDryWorld.
std::filesystem::path find_preloaded_library(std::string const& name);

/// What LD_PRELOAD has to be for a program that is to be started with it.
std::string preload_of(std::filesystem::path const& library);

/// libmaxbatch_dry_cuda.so: beside this library or the program, as they are built or installed; or where
/// MAXBATCH_DRY_CUDA_LIBRARY says.  Throws: NoDryWorld.
std::filesystem::path find_dry_cuda_library();

}  // namespace maxbatch::process
