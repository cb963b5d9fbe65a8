#pragma once

#include <string>

namespace maxbatch::cli {

/// Looks at the file that would be started as `program`, found as the shell finds it, before it is started on a dry card.
/// Throws: UsageError, one sentence, for what cannot be started, or could not have a library put ahead of it: no such file,
/// a folder, not executable, an interpreter that is not there, another kind of machine, linked without the dynamic loader,
/// another user's rights.
void check_program_file(std::string const& program);

}  // namespace maxbatch::cli
