#include "dry_cuda/policies/policy_interface.hpp"
#include "known_values.hpp"
#include "observer.hpp"
#include "rules.hpp"
#include "sites.hpp"

#include <exception>
#include <string>

namespace maxbatch::dry {
namespace {

bool answer_read(void* host, void const*, std::size_t bytes) { return answer_read_of_this_thread(host, bytes); }

char const* start(PolicySurroundings const& surroundings) {
  built_in_rules();  // complains here, if ever
  start_sites(surroundings);
  static PolicyHooks const hooks{answer_read, note_written_by_this_thread, known_values::forget_all};
  surroundings.install(&hooks);
  start_observer();
  return nullptr;
}

}  // namespace
}  // namespace maxbatch::dry

extern "C" __attribute__((visibility("default"))) char const* maxbatch_start_data_policies(
    maxbatch::dry::PolicySurroundings const* surroundings) {
  try {
    return maxbatch::dry::start(*surroundings);
  } catch (std::exception const& error) {
    // A policy that cannot be read is nothing to go on without.
    surroundings->end_with_sentence(error.what());
    return error.what();
  }
}
