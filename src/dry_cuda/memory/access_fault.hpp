#pragma once

namespace maxbatch::dry {

/// From here on, a host access to device memory says what it was before the process ends as it would have. Chains to
/// whatever handled SIGSEGV before. Once per process.
void explain_access_faults();

}  // namespace maxbatch::dry
